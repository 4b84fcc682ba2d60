from course_grader.exercises import Anything, Card, Rows, Worth, pick
from course_lib.estimate.units import GB, TFLOP

BACKWARD = {
    "behind": "backward",
    "words": "the **backward pass**, which computes 4 FLOPs per parameter and token",
    "flops_each": 4,
}
STEP = {
    "behind": "step",
    "words": "the **whole step**, which computes 6 FLOPs per parameter and token; this run applies gradients one step "
    "late, so the next forward pass hides communication too",
    "flops_each": 6,
}
SIZES = pick(bandwidth=(25 * GB, 50 * GB, 100 * GB), ranks=(32, 128, 256), batch=(1e6, 2e6, 4e6))

CARD = Card(
    title="How many GPUs until communication shows?",
    text="""Find the number of tokens per GPU, and from it the number of GPUs, up to which an all-reduce stays hidden.
A ring all-reduce of the gradients runs while the GPU computes. Communication is **hidden** as long as it takes no
longer than {{words}}. Leave latency out.

- `break_even_tokens(flops, bandwidth, ranks, grad_bytes)`: the tokens per GPU and step at which both take equally long.
  `flops` is what a GPU achieves, in FLOP/s; `bandwidth` is in bytes/s one way; `grad_bytes` is bytes per parameter's
  gradient. Why is the number of parameters not an argument?
- `most_gpus(batch_tokens, flops, bandwidth, grad_bytes)`: a batch of `batch_tokens` is divided evenly over the GPUs.
  Return the largest whole number of GPUs on which communication is still hidden. One GPU sends nothing.
- The visible cases use {{rate:tflops}}, {{bandwidth:gbps}} and 16-bit gradients; {{ranks}} GPUs for the first function,
  and a batch of {{batch:count}} tokens for the second.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    hints=(
        "Both times grow with the number of parameters. What is left when you divide one by the other?",
        "Write both times for P parameters and T tokens, set them equal, and solve for T. For the second function, T "
        "is the batch divided by N, and N also appears in the ring's factor.",
        "With k FLOPs per parameter and token to hide behind: `2 * (N - 1) / N * grad_bytes / bandwidth = k * T / "
        "flops`. With T = batch / N, both N below cancel: `N - 1 = k * batch * bandwidth / (2 * grad_bytes * flops)`; "
        "round down to a whole number.",
    ),
    answers=("break_even_tokens", "most_gpus"),
    params={**BACKWARD, "rate": 400 * TFLOP, "bandwidth": 50 * GB, "ranks": 64, "batch": 2e6},
    vary=lambda draw: {**STEP, **SIZES(draw)},
    structural="behind",
    returns=Rows(Anything("a number"), Anything("a number")),
)
