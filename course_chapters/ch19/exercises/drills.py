"""One-line questions of chapter 19, with other numbers every time."""

from course_grader.exercises import of_chapter, pick

_drill = of_chapter("19")

DRILLS = (
    _drill(
        "adapter-numbers",
        "A matrix of {{out:int}} × {{wide:int}} gets LoRA of rank {{rank}}: how many numbers are trained?",
        "a plain number",
        {"out": 4096, "wide": 4096, "rank": 16},
        pick(out=(1024, 4096, 8192), wide=(4096, 5120, 14336), rank=(4, 8, 16, 32)),
    ),
    _drill(
        "rows-of-b",
        "The outputs of a {{out:int}} × 4,096 matrix are divided by {{tp}} ranks, LoRA of rank {{rank}}: how many "
        "numbers of B has a rank?",
        "a plain number",
        {"out": 4096, "tp": 4, "rank": 16},
        pick(out=(4096, 8192, 14336), tp=(2, 4, 8), rank=(8, 16, 32)),
    ),
    _drill(
        "centered-advantage",
        "{{right}} of {{group}} answers get reward 1, the others 0. What is a right answer's advantage before the "
        "division by the standard deviation?",
        "a plain number",
        {"right": 2, "group": 8},
        pick(right=(1, 2, 3), group=(8, 16, 20)),
    ),
    _drill(
        "scaled-advantage",
        "{{right}} of {{group}} answers get reward 1, the others 0. What is a right answer's advantage over the "
        "standard deviation (over n)?",
        "a plain number",
        {"right": 2, "group": 8},
        pick(right=(1, 2, 4), group=(8, 12, 16)),
    ),
    _drill(
        "clipped-loss",
        "A token's ratio is {{ratio}}, its advantage {{worth}}, the clip ± 0.2. What is minus its loss?",
        "a plain number",
        {"ratio": 1.5, "worth": 2},
        pick(ratio=(1.4, 1.5, 1.8, 2.5), worth=(1, 2, 3)),
    ),
    _drill(
        "third-estimator",
        "log π − log π_ref of a drawn token is {{gap}}. What is k3?",
        "a plain number",
        {"gap": 0.5},
        pick(gap=(0.4, 0.5, 1.0, 1.5, -0.5, -1.0)),
    ),
    _drill(
        "capped-weight",
        "A token has probability {{trainer}} in the trainer and {{generator}} in the generator, same weights, cap 2. "
        "What is its weight?",
        "a plain number",
        {"trainer": 0.3, "generator": 0.4},
        pick(trainer=(0.2, 0.3, 0.36), generator=(0.24, 0.4, 0.5)),
    ),
    _drill(
        "token-weight",
        "{{ranks}} ranks have {{tokens:int}} targets in all, and DDP averages gradients. By what is each rank's sum of "
        "losses multiplied?",
        "a plain number",
        {"ranks": 4, "tokens": 1000},
        pick(ranks=(2, 4, 8), tokens=(500, 1000, 4000)),
    ),
)
