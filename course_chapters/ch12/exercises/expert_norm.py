from course_chapters.ch12.exercises.probes import normed
from course_chapters.ch12.exercises.shared import vary_layout
from course_grader.exercises import Anything, Card, PerRank, Worth

CARD = Card(
    title="The norm of all gradients",
    text="""Write `global_norm(comm, dense, experts, copies)`, the number that gradient clipping needs: the norm of the
whole model's gradient, the same on every rank. Megatron-LM once left some experts out (*NVIDIA/Megatron-LM, pull
request 5916*), and DeepSpeed averaged the ranks' norms (*deepspeedai/DeepSpeed, pull request 8478*).

- `dense` is a list of gradients that are the same on every rank.
- `experts` is a list of gradients of this rank's experts. Each set of experts has replicas on `copies` ranks, with the
  same gradients.
- The norm is the root of the sum of all squares, where every parameter of the model counts **once**.
- Gradients may be in bf16 or fp16; add their squares in fp32 or wider. A list may be empty, and so may a tensor. Some
  ranks may hold no experts while others do.
- Return a Python float, and leave the gradients as they are.

Budget: one number per rank is reduced, whatever the size of the model.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "If all ranks add up the squares of their experts, how many times does each expert count?",
        "Reduce the sum of squares of the experts over all ranks, and divide by `copies`. The dense part is known "
        "on every rank.",
        "`total = torch.tensor(sum(g.double().square().sum().item() for g in experts))`; `comm.all_reduce(total)`; "
        "`math.sqrt(dense_squares + total.item() / copies)`.",
    ),
    answers=("global_norm",),
    allowed="torch, `math` and the operations of `comm`; the library's norm is switched off.",
    hides=("course_lib.parallel.expert.gradients:global_norm",),
    params={"group": 2, "ranks": 6},
    vary=vary_layout,
    needs=("08",),
    probe=normed,
    returns=PerRank(Anything("a float")),
)
