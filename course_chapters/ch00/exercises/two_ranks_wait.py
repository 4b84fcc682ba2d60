from collections.abc import Mapping

from course_grader.exercises import Card, Params, PerRank, Random, Tensor, Worth

PAIRINGS: Mapping[str, str] = {
    "neighbors": "(0, 1), (2, 3), (4, 5) and so on",
    "mirrored": "(0, N−1), (1, N−2) and so on, inward",
    "halves": "(0, N/2), (1, N/2+1) and so on, the lower half with the upper half",
}


def _vary_pairs(rng: Random) -> Params:
    pairing = rng.choice(("mirrored", "halves"))
    return {"pairing": pairing, "pairs": PAIRINGS[pairing], "numbers": rng.randrange(4, 10)}


CARD = Card(
    title="Two ranks wait for each other",
    text="""Repair the function above. Write `exchange(comm, x)`: each rank returns its **partner's** tensor.

- There are N ranks, N even, and the pairs are {{pairs}}. Partners hold tensors of the same shape and dtype.
- A rank sends its tensor once, and only to its partner.
- The order must be safe on any machine. Messages may be unbuffered. The operations of one pair may also run one after
  another, in the order in which they were issued, unless they are batched (as on NCCL).""",
    **Worth(points=5, minutes=10, difficulty=2, importance=5),
    form="bug",
    hints=(
        "Both ranks wait in `send`. What has to happen on the *other* rank before a `send` may return, and can that "
        "rank reach it?",
        "The two ranks run the same code, but they need not do the same thing first. What do partners know that lets "
        "one of them start by receiving? Or: which call starts the send and the receive together, as one operation?",
        "`if comm.rank < partner:` send, then receive; `else:` receive, then send. Work out `partner` from "
        "`comm.rank` (and `comm.size`, if the pairs need it). A bare `isend` before the `recv` passes almost every "
        "case, but not on a machine that runs one pair's operations in the order of issue; `batch_isend_irecv` "
        "passes there too.",
    ),
    answers=("exchange",),
    allowed="`comm.send`, `recv`, `isend`, `irecv`, and `comm.batch_isend_irecv([...])` of `P2POp(comm.isend, tensor, "
    "peer)` or `P2POp(comm.irecv, tensor, peer)`; `from course_lib.cluster import P2POp`.",
    params={"pairing": "neighbors", "pairs": PAIRINGS["neighbors"], "numbers": 6},
    vary=_vary_pairs,
    structural="pairing",
    returns=PerRank(Tensor()),
)
