"""One-line questions of chapter 18, with other numbers every time."""

from course_grader.exercises import asking

_drill = asking("18")

DRILLS = (
    _drill("queue-time", "µs", kernels=(100, 50, 200), lasts=(2, 1, 3), launch=(6, 5, 8))(
        "{{kernels:int}} kernels of {{lasts}} µs each follow each other, and the host needs {{launch}} µs for each "
        "launch. How long does the stream take?"
    ),
    _drill("chain-bytes", "MB", operations=(4, 3, 5, 8), size=(100, 50, 200))(
        "A chain of {{operations}} pointwise operations, each of one tensor of {{size}} MB, is fused into one kernel. "
        "How many MB fewer pass through memory?"
    ),
    _drill("compiled-share", "a factor above 1", share=(80, 60, 75, 90), times=(4, 3, 5))(
        "A step spends {{share}} % of its time in matmuls. Everything else becomes {{times}} times as fast. How many "
        "times as fast is the step?"
    ),
    _drill("launches-of-step", "ms", kernels=(120, 60, 150), launch=(7, 5, 10), layers=(32, 16, 80))(
        "A layer has {{kernels:int}} kernels forward and backward, each with a launch of {{launch}} µs. How many ms "
        "of launches does the host need for a step of {{layers:int}} layers?"
    ),
    _drill("least-kernel", "MB", launch=(7, 5, 10), rate=(3, 2, 4, 8))(
        "Launches take {{launch}} µs, and memory moves {{rate}} TB/s. How many MB must a memory-bound kernel move so "
        "that its launch is hidden?"
    ),
    _drill("idle-share", "%", step=(80, 100, 125), busy=(60, 50, 70))(
        "A step takes {{step}} ms. Its kernels run for {{busy}} ms, one at a time. For what percentage of the step is "
        "the device idle?"
    ),
    _drill("compile-pays", "steps", compile=(60, 30, 120, 300), saved=(40, 20, 100))(
        "Compiling takes {{compile}} s and saves {{saved}} ms in each step. After how many steps has it paid?"
    ),
    _drill("padding-share", "%", longest=(1000, 500, 2000, 4000))(
        "Prompts have 1 to {{longest:int}} tokens, each length equally often, and are padded to {{longest:int}}. What "
        "percentage of the computed tokens is padding, to the nearest percent?"
    ),
)
