from collections.abc import Mapping

from course_chapters.ch06.exercises.probes import from_messages
from course_grader.exercises import Card, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

OPS: Mapping[str, str] = {"sum": "the elementwise sum", "max": "the elementwise maximum"}


CARD = Card(
    title="Two ranks agree",
    text="""Write the smallest collective: two ranks that combine their tensors. It is the building block of halving and
doubling. Ranks 2k and 2k+1 are partners: 0 with 1, 2 with 3, and so on.

- `pair_reduce(comm, x)` returns {{result}} of the two partners' tensors, on both of them.
- If the number of ranks is odd, the last rank has no partner and returns its `x`.
- Partners hold tensors of the same shape and dtype. You may overwrite `x`.
- Each rank sends its tensor once, to its partner only. Nothing may rely on a buffer.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=4),
    hints=(
        "Who is the partner of rank 5, and how do you compute it without a table? What does the last of seven ranks "
        "do?",
        "Receive into a second tensor, so that your own stays intact while it is being sent. Start both halves at "
        "once, or let one partner send first and the other receive first.",
        "`partner = comm.rank ^ 1`; `if partner >= comm.size: return x`; `theirs = torch.empty_like(x)`; start "
        "`isend` and `irecv` in one batch, wait for both, combine `x` and `theirs`.",
    ),
    answers=("pair_reduce",),
    may_change=("arguments",),
    allowed=ALLOWED,
    params={"op": "sum", "result": OPS["sum"], "numbers": 6},
    vary=lambda draw: {"op": "max", "result": OPS["max"], "numbers": draw.randrange(5, 12)},
    structural="op",
    probe=from_messages,
    returns=PerRank(Tensor()),
)
