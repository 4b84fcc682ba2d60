"""One-line questions of chapter 19, with other numbers every time."""

from course_grader.exercises import asking

_drill, _NUMBER = asking("19"), "a plain number"

DRILLS = (
    _drill("adapter-numbers", _NUMBER, out=(4096, 1024, 8192), wide=(4096, 5120, 14336), rank=(16, 4, 8, 32))(
        "A matrix of {{out:int}} × {{wide:int}} gets LoRA of rank {{rank}}: how many numbers are trained?"
    ),
    _drill("rows-of-b", _NUMBER, out=(4096, 8192, 14336), tp=(4, 2, 8), rank=(16, 8, 32))(
        "The outputs of a {{out:int}} × 4,096 matrix are divided by {{tp}} ranks, LoRA of rank {{rank}}: how many "
        "numbers of B has a rank?"
    ),
    _drill("centered-advantage", _NUMBER, right=(2, 1, 3), group=(8, 16, 20))(
        "{{right}} of {{group}} answers get reward 1, the others 0. What is a right answer's advantage before the "
        "division by the standard deviation?"
    ),
    _drill("scaled-advantage", _NUMBER, right=(2, 1, 4), group=(8, 12, 16))(
        "{{right}} of {{group}} answers get reward 1, the others 0. What is a right answer's advantage over the "
        "standard deviation (over n − 1)?"
    ),
    _drill("clipped-loss", _NUMBER, ratio=(1.5, 1.4, 1.8, 2.5), worth=(2, 1, 3))(
        "A token's ratio is {{ratio}}, its advantage {{worth}}, the clip ± 0.2. What is minus its loss?"
    ),
    _drill("third-estimator", _NUMBER, gap=(0.5, 0.4, 1.0, 1.5, -0.5, -1.0))(
        "log π − log π_ref of a drawn token is {{gap}}. What is k3?"
    ),
    _drill("capped-weight", _NUMBER, trainer=(0.3, 0.2, 0.36), generator=(0.4, 0.24, 0.5))(
        "A token has probability {{trainer}} in the trainer and {{generator}} in the generator, same weights, cap 2. "
        "What is its weight?"
    ),
    _drill("token-weight", _NUMBER, ranks=(4, 2, 8), tokens=(1000, 500, 4000))(
        "{{ranks}} ranks have {{tokens:int}} targets in all, and DDP averages gradients. By what is each rank's sum of "
        "losses multiplied?"
    ),
)
