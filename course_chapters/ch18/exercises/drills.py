"""One-line questions of chapter 18, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter, pick

_drill = of_chapter("18")

DRILLS = (
    _drill(
        "queue-time",
        "{{kernels:int}} kernels of {{lasts}} µs each follow each other, and the host needs {{launch}} µs for each "
        "launch. How long does the stream take?",
        "µs",
        {"kernels": 100, "lasts": 2, "launch": 6},
        pick(kernels=(50, 100, 200), lasts=(1, 2, 3), launch=(5, 6, 8)),
    ),
    _drill(
        "chain-bytes",
        "A chain of {{operations}} pointwise operations, each of one tensor of {{size}} MB, is fused into one kernel. "
        "How many MB fewer pass through memory?",
        "MB",
        {"operations": 4, "size": 100},
        pick(operations=(3, 4, 5, 8), size=(50, 100, 200)),
    ),
    _drill(
        "compiled-share",
        "A step spends {{share}} % of its time in matmuls. Everything else becomes {{times}} times as fast. How many "
        "times as fast is the step?",
        "a factor above 1",
        {"share": 80, "times": 4},
        pick(share=(60, 75, 80, 90), times=(3, 4, 5)),
    ),
)
