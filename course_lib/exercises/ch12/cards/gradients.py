"""Cards of chapter 12 on experts and data parallelism: who shares a gradient, what it is divided by, and the norm of all of them."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch12.probes import averaged, normed
from course_lib.exercises.returns import Anything, DictOf, ListOf, PerRank, Tensor


def _vary_layout(draw: random.Random) -> Mapping[str, Any]:
    group, copies = draw.choice(((2, 4), (3, 2), (4, 2)))
    return {"group": group, "ranks": group * copies}


EXPERT_GRADIENT_SCALE = Card(
    id="expert-gradient-scale",
    chapter="12",
    title="Find the bug: gradients that grow with the group",
    text="""Repair `average_gradients`: the gradients of the experts are too large by the size of the expert-parallel group (*pytorch/pytorch, issue
160285*; the same in *NVIDIA/Megatron-LM, pull request 5956*). The loss curves looked the same, because Adam does not notice the scale.

```python
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        for p in parameters:
            group.all_reduce(p.grad)
            p.grad /= group.size
```

`comm` is all data-parallel ranks. Every {{group}} consecutive ranks form an expert-parallel group, which holds each expert once. `replicas` is
the group of ranks that hold the same experts as this one. The loss is the mean over the ranks of each rank's own loss.

- After the call, each parameter's `.grad` is the gradient of that loss. `dense` parameters are the same on all ranks.
- An expert's `.grad` already contains the tokens of **all ranks in its expert-parallel group**, because they were sent there.
- An expert without a token has `.grad = None`, perhaps on one replica and not on another. This breaks the program above, too.
- If no replica has a gradient, the result may be zero or None. Return nothing, and leave the weights as they are.

Budget: a rank sends at most twice the bytes of its parameters.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "How many ranks' losses does the sum over the replicas contain? How many does the mean divide by?",
        "Sum over the replicas, and divide by the number of all ranks. Every replica must take part in each sum, with zeros if it has nothing.",
        "`if p.grad is None: p.grad = torch.zeros_like(p)`; `group.all_reduce(p.grad)`; `p.grad /= comm.size` for both kinds.",
    ),
    answers=("average_gradients",),
    allowed="torch and the operations of both communicators; the library's function is switched off.",
    hides=("expert_parallel.gradients:average_gradients",),
    params={"group": 2, "ranks": 6},
    vary=_vary_layout,
    needs=("07",),
    probe=averaged,
    returns=PerRank(DictOf({"dense": ListOf(Tensor()), "experts": ListOf(Tensor()), "changed": Anything()})),
)

EXPERT_NORM = Card(
    id="expert-norm",
    chapter="12",
    title="The norm of all gradients",
    text="""Write `global_norm(comm, dense, experts, copies)`, the number that gradient clipping needs: the norm of the whole model's gradient, the same on
every rank. Megatron-LM once left some experts out (*NVIDIA/Megatron-LM, pull request 5916*), and DeepSpeed averaged the ranks' norms
(*deepspeedai/DeepSpeed, pull request 8478*).

- `dense` is a list of gradients that are the same on every rank.
- `experts` is a list of gradients of this rank's experts. Each set of experts exists on `copies` ranks, with the same gradients there.
- The norm is the root of the sum of all squares, where every parameter of the model counts **once**.
- Gradients may be in bf16 or fp16; add their squares in fp32 or wider. A list may be empty, and so may a tensor. Some
  ranks may hold no experts while others do.
- Return a Python float, and leave the gradients as they are.

Budget: one number per rank is reduced, whatever the size of the model.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "If all ranks add up the squares of their experts, how often does each expert count?",
        "Reduce the sum of squares of the experts over all ranks, and divide by `copies`. The dense part is known on every rank.",
        "`total = torch.tensor(sum(g.double().square().sum().item() for g in experts))`; `comm.all_reduce(total)`; "
        "`math.sqrt(dense_squares + total.item() / copies)`.",
    ),
    answers=("global_norm",),
    allowed="torch, `math` and the operations of `comm`; the library's norm is switched off.",
    hides=("expert_parallel.gradients:global_norm",),
    params={"group": 2, "ranks": 6},
    vary=_vary_layout,
    needs=("08",),
    probe=normed,
    returns=PerRank(DictOf({"norm": Anything(), "changed": Anything()})),
)
