"""One-line questions of chapter 14, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("14")

DRILLS = (
    _drill("mtbf-at-size", "hours", hours=(50000, 30000, 80000), gpus=(4096, 512, 1024, 16384, 32768))(
        "One GPU fails every {{hours:int}} hours on average. How many hours lie between failures of a job on "
        "{{gpus:int}} GPUs?"
    ),
    _drill("young-interval", "minutes", save=(30, 5, 10, 60, 120), hours=(6, 2, 3, 12, 24))(
        "A save takes {{save}} s, and the job fails every {{hours}} hours. Young's best interval between saves?"
    ),
    _drill("four-times-gpus", "a factor above 1", gpus=(1024, 256, 512, 2048), times=(4, 2, 8, 16))(
        "A job grows from {{gpus:int}} to {{times}} times as many GPUs; a save takes as long as before. By which "
        "factor does Young's interval shrink?"
    ),
    _drill("save-seconds", "seconds", params=(70e9, 7e9, 13e9, 405e9), bytes=(14, 12, 16), rate=(200, 20, 50, 1000))(
        "{{params:count}} parameters at {{bytes}} bytes each are written at {{rate}} GB/s in all. How long does "
        "a save take?"
    ),
    _drill("rework", "minutes", minutes=(40, 10, 15, 30, 60, 90))(
        "A job saves every {{minutes}} minutes, and a save takes no time. How many minutes of work does a failure "
        "cost on average?"
    ),
    _drill("restart-share", "%", hours=(4, 2, 3, 8), minutes=(12, 5, 10, 20))(
        "A job fails every {{hours}} hours, and each restart takes {{minutes}} minutes. What percentage of the time "
        "goes to restarts alone, to first order?"
    ),
    _drill("no-failure", "a probability", between=(50, 20, 80), hours=(40, 10, 24, 72))(
        "A job fails every {{between}} hours on average. With which probability does a run of {{hours}} hours "
        "see no failure?"
    ),
    _drill("expected-slowest", "seconds", ranks=(8, 2, 4, 16), mean=(0.1, 0.05, 0.2))(
        "Each of {{ranks}} ranks takes 1 s plus a random delay, exponential with a mean of {{mean}} s. How long does "
        "a step take on average?"
    ),
)
