from course_chapters.ch12.exercises.probes import averaged
from course_chapters.ch12.exercises.shared import vary_layout
from course_grader.exercises import Card, DictOf, ListOf, PerRank, Tensor, Worth

CARD = Card(
    title="Find the bug: gradients that grow with the group",
    text="""Repair `average_gradients`: the gradients of the experts are too large by the size of the expert-parallel
group (*pytorch/pytorch, issue 160285*; the same in *NVIDIA/Megatron-LM, pull request 5956*). The loss curves looked the
same, because Adam does not notice the scale.

```python
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        for p in parameters:
            group.all_reduce(p.grad)
            p.grad /= group.size
```

`comm` is the communicator of all data-parallel ranks. Every {{group}} consecutive ranks form an
expert-parallel group, which holds each expert once. `replicas` is the group of ranks that hold the same experts as this
one. The loss is the mean over the ranks of each rank's own loss.

- After the call, each parameter's `.grad` is the gradient of that loss. `dense` parameters are the same on all ranks.
- An expert's `.grad` already contains the tokens of **all ranks in its expert-parallel group**, because they were sent
  there.
- An expert without a token has `.grad = None`, perhaps on one replica and not on another. This breaks the program
  above, too.
- If no replica has a gradient, the result may be zero or None. Return nothing, and leave the weights as they are.

Budget: a rank sends at most twice the bytes of its parameters.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    kind="more",
    form="bug",
    hints=(
        "How many ranks' losses does the sum over the replicas contain? How many does the mean divide by?",
        "Sum over the replicas, and divide by the number of all ranks. Every replica must take part in each sum, with "
        "zeros if it has nothing.",
        "`if p.grad is None: p.grad = torch.zeros_like(p)`; `group.all_reduce(p.grad)`; `p.grad /= comm.size` "
        "for both kinds.",
    ),
    answers=("average_gradients",),
    allowed="torch and the operations of both communicators; the library's function is switched off.",
    hides=("course_lib.parallel.expert.gradients:average_gradients",),
    params={"group": 2, "ranks": 6},
    vary=vary_layout,
    needs=("07",),
    probe=averaged,
    returns=PerRank(DictOf({"dense": ListOf(Tensor()), "experts": ListOf(Tensor())})),
)
