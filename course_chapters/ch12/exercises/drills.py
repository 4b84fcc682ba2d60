"""One-line questions of chapter 12, with other numbers every time."""

from course_grader.exercises import of_chapter, pick

_drill = of_chapter("12")

DRILLS = (
    _drill(
        "mean-load",
        "{{tokens:,}} tokens go to {{k}} of {{experts}} experts each. How many copies does an expert get on average?",
        "copies",
        {"tokens": 8192, "k": 2, "experts": 64},
        pick(tokens=(4096, 8192, 16384), k=(1, 2, 4, 8), experts=(16, 32, 64, 128)),
    ),
    _drill(
        "step-of-the-busiest",
        "The busiest rank gets {{times}} times the mean number of copies. What share of the experts' compute time "
        "does an average rank wait?",
        "a fraction of 1",
        {"times": 1.6},
        pick(times=(1.25, 1.6, 2.0, 2.5, 4.0)),
    ),
    _drill(
        "dispatch-megabytes",
        "{{tokens:,}} tokens of width {{width:,}} in bf16, {{k}} experts each, evenly over {{ranks}} ranks of one "
        "expert group. How many MB leave a rank in the dispatch of one layer?",
        "MB",
        {"tokens": 4096, "width": 4096, "k": 8, "ranks": 8},
        pick(tokens=(2048, 4096, 8192), width=(2048, 4096, 7168), k=(2, 6, 8), ranks=(4, 8, 16)),
    ),
    _drill(
        "exchanges-per-step",
        "A model has {{layers}} layers with experts on many ranks. How many exchanges of rows does a training step "
        "make, forward and backward?",
        "exchanges",
        {"layers": 32},
        pick(layers=(16, 24, 32, 48, 58)),
    ),
    _drill(
        "experts-per-rank",
        "{{experts}} experts, {{ranks}} data-parallel ranks, expert groups of {{group}}. How many experts does a rank "
        "hold per layer?",
        "experts",
        {"experts": 64, "ranks": 32, "group": 8},
        pick(experts=(64, 128, 256), ranks=(32, 64, 128), group=(8, 16, 32)),
    ),
    _drill(
        "copies-of-a-set",
        "{{ranks}} data-parallel ranks in expert groups of {{group}}. Over how many ranks are an expert's "
        "gradients summed?",
        "ranks",
        {"ranks": 64, "group": 8},
        pick(ranks=(32, 64, 128, 256), group=(2, 4, 8, 16)),
    ),
    _drill(
        "balanced-loss",
        "One expert of {{experts}} gets every token, and the router gives it a probability of {{probability}}. What "
        "is the auxiliary loss (E · Σ c · P, k = 1)?",
        "a plain number",
        {"experts": 8, "probability": 0.5},
        pick(experts=(4, 8, 16, 64), probability=(0.3, 0.5, 0.75, 0.9)),
    ),
    _drill(
        "steps-to-steer",
        "An expert's score is {{gap}} too low to be chosen, and its bias rises by {{rate}} a step. After how many "
        "steps is it first chosen?",
        "steps",
        {"gap": 0.0505, "rate": 0.001},
        pick(gap=(0.0205, 0.0505, 0.1205), rate=(0.001, 0.002)),
    ),
)
