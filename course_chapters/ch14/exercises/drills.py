"""One-line questions of chapter 14, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("14")

DRILLS = (
    _drill(
        "mtbf-at-size",
        "One GPU fails every {{hours:int}} hours on average. How many hours lie between failures of a job on "
        "{{gpus:int}} GPUs?",
        "hours",
        {"hours": 50000, "gpus": 4096},
        pick(hours=(30000, 50000, 80000), gpus=(512, 1024, 4096, 16384, 32768)),
    ),
    _drill(
        "young-interval",
        "A save takes {{save}} s, and the job fails every {{hours}} hours. Young's best interval between saves?",
        "minutes",
        {"save": 30, "hours": 6},
        pick(save=(5, 10, 30, 60, 120), hours=(2, 3, 6, 12, 24)),
    ),
    _drill(
        "four-times-gpus",
        "A job grows from {{gpus:int}} to {{times}} times as many GPUs; a save takes as long as before. By which "
        "factor does Young's interval shrink?",
        "a factor above 1",
        {"gpus": 1024, "times": 4},
        pick(gpus=(256, 512, 1024, 2048), times=(2, 4, 8, 16)),
    ),
    _drill(
        "save-seconds",
        "{{params:count}} parameters at {{bytes}} bytes each are written at {{rate}} GB/s in all. How long does "
        "a save take?",
        "seconds",
        {"params": 70e9, "bytes": 14, "rate": 200},
        pick(params=(7e9, 13e9, 70e9, 405e9), bytes=(12, 14, 16), rate=(20, 50, 200, 1000)),
    ),
    _drill(
        "rework",
        "A job saves every {{minutes}} minutes, and a save takes no time. How many minutes of work does a failure "
        "cost on average?",
        "minutes",
        {"minutes": 40},
        pick(minutes=(10, 15, 30, 40, 60, 90)),
    ),
    _drill(
        "restart-share",
        "A job fails every {{hours}} hours, and each restart takes {{minutes}} minutes. What percentage of the time "
        "goes to restarts alone, to first order?",
        "%",
        {"hours": 4, "minutes": 12},
        pick(hours=(2, 3, 4, 8), minutes=(5, 10, 12, 20)),
    ),
    _drill(
        "no-failure",
        "A job fails every {{between}} hours on average. With which probability does a run of {{hours}} hours "
        "see no failure?",
        "a probability",
        {"between": 50, "hours": 40},
        pick(between=(20, 50, 80), hours=(10, 24, 40, 72)),
    ),
    _drill(
        "expected-slowest",
        "Each of {{ranks}} ranks takes 1 s plus a random delay, exponential with a mean of {{mean}} s. How long does "
        "a step take on average?",
        "seconds",
        {"ranks": 8, "mean": 0.1},
        pick(ranks=(2, 4, 8, 16), mean=(0.05, 0.1, 0.2)),
    ),
)
