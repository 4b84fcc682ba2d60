from course_chapters.ch05.exercises.probes import trained
from course_grader.exercises import Anything, Card, DictOf, ListOf, Tensor, Worth

REDUCED = {
    "mean": "the **mean** over the micro-batches",
    "sum": "the **sum** over the micro-batches, whose losses are already divided by the tokens of the whole batch",
}

CARD = Card(
    title="The five steps of a mixed-precision update",
    text="""Write one optimizer step that computes in bf16 and keeps its state in fp32:
`train_step(master, momentum, microbatches, loss_of, rate, accumulate)`. It returns `(master, momentum, copy)`.

1. Round the fp32 `master` weights to a bf16 copy. Forward and backward use this copy alone.
2. `loss_of(weights, microbatch)` returns the fp32 loss of one micro-batch. Call it once for each; a gradient in bf16
   follows from it.
3. Add the gradients, one micro-batch after the other, in a buffer of dtype `accumulate`: `torch.float32`, or
   `torch.bfloat16` to compare.
4. The gradient is {{means}}, in fp32. Then `momentum = 0.9 * momentum + gradient` and
   `master = master - rate * momentum`, in fp32.
5. Round the new master weights to the new bf16 `copy`.

The number of micro-batches is a power of two. Leave the given tensors as they are.""",
    **Worth(points=10, minutes=20, difficulty=3, importance=5),
    hints=(
        "In which dtype does `.grad` of a bf16 tensor add when you call `backward()` several times?",
        "Use `torch.autograd.grad` or a fresh copy for each micro-batch, and add its gradient to a buffer of your "
        "own. The master weights change by updates that the copy would lose.",
        "`copy = master.bfloat16().requires_grad_()`; `(g,) = torch.autograd.grad(loss_of(copy, batch), copy)`; "
        "`buffer += g`; `gradient = buffer.float() / len(microbatches)`.",
    ),
    answers=("train_step",),
    allowed="torch without `torch.optim` and without autocast.",
    params={"reduce": "mean", "means": REDUCED["mean"]},
    vary=lambda draw: {"reduce": "sum", "means": REDUCED["sum"]},
    structural="reduce",
    probe=trained,
    returns=DictOf({"state": Anything("(master, momentum, copy)"), "calls": ListOf(Tensor())}),
)
