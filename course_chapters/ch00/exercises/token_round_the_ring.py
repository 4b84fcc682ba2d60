from collections.abc import Mapping

from course_grader.exercises import Card, PerRank, Tensor, Worth

ROUTES: Mapping[int, str] = {1: "0 → 1 → 2 → … → 0", -1: "0 → N−1 → N−2 → … → 0"}

CARD = Card(
    title="A token around the ring",
    text="""Pass a token once around a ring of N ranks, so that it collects every rank's stamp. Write
`pass_token(comm, token)`.

- On every rank, `token` holds N whole numbers: the rank's own secret stamp in its own slot, `token[comm.rank]`, and 0
  elsewhere.
- Rank 0 sends its token. It travels {{route}}, and every rank adds its stamp.
- Each rank returns the token **as it sent it on**; rank 0 returns it as it **came back**, with all N stamps.
- A single rank returns its own token and sends nothing.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=3),
    kind="more",
    hints=(
        "Which rank must not start by receiving? What does every other rank need before it may send?",
        "Each rank has two neighbors: it receives from one and sends to the other. Modulo N closes the ring, also for "
        "a step of −1. Rank 0 sends first and receives last; all others receive first.",
        "`after = (comm.rank + step) % comm.size`, `before = (comm.rank - step) % comm.size`, with the step of the "
        "route. Others: `comm.recv(seen, before)`, add your stamp to `seen`, `comm.send(seen, after)`, return it.",
    ),
    answers=("pass_token",),
    allowed="`comm.send`, `recv`, `isend`, `irecv`.",
    params={"direction": 1, "route": ROUTES[1], "ranks": 5},
    vary=lambda rng: {"direction": -1, "route": ROUTES[-1], "ranks": rng.choice((4, 6, 7))},
    structural="direction",
    returns=PerRank(Tensor()),
)
