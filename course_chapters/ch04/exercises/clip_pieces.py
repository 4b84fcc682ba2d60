from course_chapters.ch04.exercises.probes import clipped
from course_grader.exercises import Anything, Card, DictOf, ListOf, Tensor, Worth

CARD = Card(
    title="One norm for all pieces",
    text="""A gradient is spread over ranks, and clipping it must give the step of one process with the whole gradient.
Write the clipping so that no way of cutting the gradient changes the result.

`clip(shards, limit, replicated)` gets one dictionary of gradients (name to tensor) for each rank. Multiply every
gradient by `min(1, limit / norm)`, in place or by assigning to the dictionaries, and return `norm`: the norm of the
**whole** gradient before clipping. Change nothing else.

- Tensors with the same name on different ranks are different pieces of one gradient. The names in the set `replicated`
  are the exception: there, all ranks hold copies of the same tensor. It counts once, and every copy must be scaled.
- A rank may hold no tensor, and all gradients may be zero. Gradients may have 16 bits: keep their dtype, but compute
  the norm in fp32.
- If the norm is infinite or NaN, leave all gradients as they are and return the norm, so that the caller can skip the
  step.

Shown: {{elements}} numbers on {{ranks}} ranks. The norm may be a number or a tensor.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Cut a vector into two pieces with norms 3 and 4. What is the norm of the vector?",
        "Squares add up over pieces, norms do not. Compute one factor from the sum of all squares, then use "
        "it everywhere.",
        "Walk over ranks and names; skip a name in `replicated` that was seen before; `total += "
        "g.float().square().sum().item()`. Then `norm = total ** 0.5`; if `math.isfinite(norm) and norm > limit`, "
        "multiply every tensor of every rank by `limit / norm`.",
    ),
    answers=("clip",),
    allowed="torch, without `torch.nn.utils`.",
    hides=("course_lib.model.optimizer.clipping:global_norm, squared_norm, clip_, clip_sharded_",),
    params={"elements": 40, "ranks": 4},
    vary=lambda draw: {"elements": draw.choice((36, 44, 52)), "ranks": draw.choice((2, 3, 5))},
    probe=clipped,
    returns=DictOf({"norm": Anything("the norm before clipping"), "gradients": ListOf(Tensor())}),
)
