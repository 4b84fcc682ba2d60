from course_grader.exercises import Card, Worth, pick, rows
from course_lib.estimate import facts
from course_lib.estimate.units import GB, TFLOP

PCIE = float(facts.link("PCIe5 x16").one_way)


CARD = Card(
    title="When the host is too far away",
    text="""Find out when offloading the optimizer state to the host or its disks slows down a step. Gradients must then
move there, and weights back.

- Each of `ranks` GPUs moves the bytes of **its own share** of the parameters over its own link: `moved` bytes per
  parameter of the share, both directions together.
- Meanwhile it computes 6 FLOPs per parameter and token, for all parameters and its own `tokens`. The two overlap
  perfectly, so the step takes as long as the longer of them.
- `step_seconds(params, tokens, ranks, flops, moved, bandwidth)` returns that time.
- `hidden_tokens(ranks, flops, moved, bandwidth)` returns the tokens per GPU from which computing takes longer than
  moving. Why are the parameters not among the arguments?

Shown: {{flops:tflops}}; {{moved}} bytes per parameter over PCIe at {{pcie:gbps}} one way, on one GPU and on
{{ranks}}; and {{nvme_moved}} bytes per parameter at the {{nvme:gbps}} of a disk, where the optimizer state is read
and written.""",
    **Worth(points=5, minutes=10, difficulty=2, importance=3),
    kind="more",
    hints=(
        "With twice as many ranks and the same tokens per rank, how do each rank's bytes and FLOPs change?",
        "The share is params / ranks. Set the two times equal and solve for the tokens; the parameters cancel.",
        "`max(6 * params * tokens / flops, params / ranks * moved / bandwidth)`; `moved * flops / (6 * ranks * "
        "bandwidth)`.",
    ),
    answers=("step_seconds", "hidden_tokens"),
    params={"flops": 400 * TFLOP, "moved": 4, "pcie": PCIE, "nvme_moved": 24, "nvme": 6 * GB, "ranks": 8},
    vary=pick(flops=(200 * TFLOP, 300 * TFLOP, 500 * TFLOP), moved=(2, 4, 6, 8), ranks=(2, 4, 16)),
    probe=rows,
)
