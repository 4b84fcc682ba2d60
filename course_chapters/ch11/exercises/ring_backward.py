from course_chapters.ch11.exercises.probes import ring_backward
from course_chapters.ch11.exercises.shared import ATTENTION
from course_grader.exercises import Card, DictOf, Maybe, Number, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="Gradients of keys and values travel home",
    text="""Write `ring_backward(comm, q, k, v, out, log_sum, grad, positions, visible)`, the backward pass of ring
attention. It returns `(dq, dk, dv)` of this rank's tensors. Every rank contributes to the gradient of every block.

- The arguments are those of the forward pass, its results, and `grad`, the gradient of `out`. Everything is in fp32.
- With P = exp(scores − log_sum) and δ the sum of grad · out for each query: dV = Pᵀ grad, dZ = P (grad Vᵀ − δ), dQ = dZ
  K / √width and dK = dZᵀ Q / √width. Entries of P that are not visible are 0. Query heads that share a KV head add
  their gradients.
- Any layout, any number of ranks. A rank may have no token, and a query may see no key. Change no argument.

Budget: together, the N ranks send the bytes of the sequence's keys and values at most N − 1 times, and those of their
gradients at most N times. Never keep as many blocks as there are ranks.""",
    **Worth(points=12, minutes=30, difficulty=5, importance=4),
    kind="more",
    hints=(
        "Which ranks know the queries that saw your keys? Where is your block after the last step?",
        "Let an accumulator for dK and dV travel with its block. After the last rank has added its part, one more "
        "message takes it home.",
        "In step t, block `(rank - t) % n`: receive its accumulator from the rank before (zeros where t = 0), add "
        "`P.mT @ grad` and `dZ.mT @ q / √width`, and send it on. After step n − 1 the block's owner is the next rank.",
    ),
    answers=("ring_backward",),
    allowed=f"torch without autograd, and {ALLOWED} The library's ring attention is switched off.",
    hides=(*ATTENTION, "course_lib.parallel.context.log_sum_exp_merge:attend_backward"),
    params={"ranks": 4},
    vary=lambda draw: {"ranks": draw.choice((3, 5))},
    needs=("05", "06"),
    probe=ring_backward,
    returns=PerRank(DictOf({"dq": Tensor(), "dk": Tensor(), "dv": Tensor(), "peak": Maybe(Number("bytes"))})),
)
