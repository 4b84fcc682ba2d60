"""One-line questions of chapter 18, with other numbers every time."""

from course_grader.exercises import of_chapter, pick

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
    _drill(
        "launches-of-step",
        "A layer has {{kernels:int}} kernels forward and backward, each with a launch of {{launch}} µs. How many ms of "
        "launches does the host need for a step of {{layers:int}} layers?",
        "ms",
        {"kernels": 120, "launch": 7, "layers": 32},
        pick(kernels=(60, 120, 150), launch=(5, 7, 10), layers=(16, 32, 80)),
    ),
    _drill(
        "least-kernel",
        "Launches take {{launch}} µs, and memory moves {{rate}} TB/s. How many MB must a memory-bound kernel move so "
        "that its launch is hidden?",
        "MB",
        {"launch": 7, "rate": 3},
        pick(launch=(5, 7, 10), rate=(2, 3, 4, 8)),
    ),
    _drill(
        "idle-share",
        "A step takes {{step}} ms. Its kernels run for {{busy}} ms, one at a time. For what percentage of the step is "
        "the device idle?",
        "%",
        {"step": 80, "busy": 60},
        pick(step=(80, 100, 125), busy=(50, 60, 70)),
    ),
    _drill(
        "compile-pays",
        "Compiling takes {{compile}} s and saves {{saved}} ms in each step. After how many steps has it paid?",
        "steps",
        {"compile": 60, "saved": 40},
        pick(compile=(30, 60, 120, 300), saved=(20, 40, 100)),
    ),
    _drill(
        "padding-share",
        "Prompts have 1 to {{longest:int}} tokens, each length equally often, and are padded to {{longest:int}}. What "
        "percentage of the computed tokens is padding, to the nearest percent?",
        "%",
        {"longest": 1000},
        pick(longest=(500, 1000, 2000, 4000)),
    ),
)
