"""One-line questions of chapter 12, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("12")

DRILLS = (
    _drill("mean-load", "copies", tokens=(8192, 4096, 16384), k=(2, 1, 4, 8), experts=(64, 16, 32, 128))(
        "{{tokens:,}} tokens go to {{k}} of {{experts}} experts each. How many copies does an expert get on average?"
    ),
    _drill("step-of-the-busiest", "a fraction of 1", times=(1.6, 1.25, 2.0, 2.5, 4.0))(
        "The busiest rank gets {{times}} times the mean number of copies. What share of the experts' compute time "
        "does an average rank wait?"
    ),
    _drill(
        "dispatch-megabytes", "MB", tokens=(4096, 2048, 8192), width=(4096, 2048, 7168), k=(8, 2, 6), ranks=(8, 4, 16)
    )(
        "{{tokens:,}} tokens of width {{width:,}} in bf16, {{k}} experts each, evenly over {{ranks}} ranks of one "
        "expert group. How many MB leave a rank in the dispatch of one layer?"
    ),
    _drill("exchanges-per-step", "exchanges", layers=(32, 16, 24, 48, 58))(
        "A model has {{layers}} layers with experts on many ranks. How many exchanges of rows does a training step "
        "make, forward and backward?"
    ),
    _drill("experts-per-rank", "experts", experts=(64, 128, 256), ranks=(32, 64, 128), group=(8, 16, 32))(
        "{{experts}} experts, {{ranks}} data-parallel ranks, expert groups of {{group}}. How many experts does a rank "
        "hold per layer?"
    ),
    _drill("copies-of-a-set", "ranks", ranks=(64, 32, 128, 256), group=(8, 2, 4, 16))(
        "{{ranks}} data-parallel ranks in expert groups of {{group}}. Over how many ranks are an expert's gradients "
        "summed?"
    ),
    _drill("balanced-loss", "a plain number", experts=(8, 4, 16, 64), probability=(0.5, 0.3, 0.75, 0.9))(
        "One expert of {{experts}} gets every token, and the router gives it a probability of {{probability}}. What "
        "is the auxiliary loss (E · Σ c · P, k = 1)?"
    ),
    _drill("steps-to-steer", "steps", gap=(0.0505, 0.0205, 0.1205), rate=(0.001, 0.002))(
        "An expert's score is {{gap}} too low to be chosen, and its bias rises by {{rate}} a step. After how many "
        "steps is it first chosen?"
    ),
)
