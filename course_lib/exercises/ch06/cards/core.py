"""Core exercises of chapter 06: from a pair of ranks to a ring all-reduce, and a time to predict."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch06.probes import from_messages, interval
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.returns import PerRank, Tensor
from course_lib.units import GB, US

OPS: Mapping[str, str] = {"sum": "the elementwise sum", "max": "the elementwise maximum"}
ROUTES: Mapping[int, str] = {1: "0 → 1 → 2 → … → 0", -1: "0 → N−1 → N−2 → … → 0"}
NEXT: Mapping[int, str] = {1: "(r + 1) mod N", -1: "(r − 1) mod N"}
OWNED: Mapping[int, str] = {0: "r", 1: "(r + 1) mod N", 2: "(r + 2) mod N", -1: "(r − 1) mod N"}
ALL_REDUCES = (
    "collectives:ring_all_reduce",
    "collectives:pipelined_ring_all_reduce",
    "collectives:tree_all_reduce",
    "collectives:naive_all_reduce",
    "collectives:halving_doubling_all_reduce",
    "collectives:hierarchical_all_reduce",
    "collectives:ring_reduce_scatter",
    "collectives:ring_all_gather",
    "collectives:_scatter_round",
    "collectives:_gather_round",
)


def _vary_op(draw: random.Random) -> Mapping[str, Any]:
    return {"op": "max", "result": OPS["max"], "numbers": draw.randrange(5, 12)}


PAIR_EXCHANGE = Card(
    id="pair-exchange",
    chapter="06",
    title="Two ranks agree",
    text="""Ranks 2k and 2k+1 are partners: 0 with 1, 2 with 3, and so on. Write `pair_reduce(comm, x)`: both partners
return {{result}} of their two tensors. If the number of ranks is odd, the last rank has no partner and returns its `x`.

Partners hold tensors of the same shape and dtype. Each sends its tensor once and speaks to nobody else; nothing may rely
on a buffer. It is the smallest collective there is, and the building block of halving and doubling.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=4),
    hints=(
        "Who is the partner of rank 5, and how do you find it without a table? What does the last of seven ranks do?",
        "Receive into a second tensor, so that yours stays whole while it is under way. Start both halves at once, or let "
        "one partner send first and the other receive first.",
        "`partner = comm.rank ^ 1`; `if partner >= comm.size: return x`; `theirs = torch.empty_like(x)`; start `isend` and "
        "`irecv` in one batch, wait for both, combine `x` and `theirs`.",
    ),
    answers=("pair_reduce",),
    allowed=ALLOWED,
    params={"op": "sum", "result": OPS["sum"], "numbers": 6},
    vary=_vary_op,
    structural="op",
    probe=from_messages,
    returns=PerRank(Tensor()),
)


def _turned(draw: random.Random) -> Mapping[str, Any]:
    return {"direction": -1, "route": ROUTES[-1], "next": NEXT[-1], "numbers": draw.randrange(5, 12)}


RING_SHIFT = Card(
    id="ring-shift",
    chapter="06",
    title="Everyone passes it on",
    text="""The ranks stand in a ring, {{route}}. Write `ring_shift(comm, x)`: every rank passes its `x` on to its next,
rank {{next}}, and returns what came from the rank before. All hold tensors of the same shape and dtype.

Every rank sends its tensor once, to its next only. All do so **at the same time**: however many ranks there are, it takes
four latencies at most. One rank alone returns its `x` and sends nothing. In a ring of two, the next and the one before
are the same rank.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=5),
    hints=(
        "If every rank first sends and then receives, who is listening? And if only rank 0 listens first, how long does the "
        "last one wait?",
        "Two ways out: start sending and receiving at once (`isend` with `recv`, or one batch); or let even ranks send first "
        "and odd ranks receive first. Receive into a tensor of its own.",
        "`after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size` (or the other way round: look at the "
        "route); `work = comm.isend(x, after)`; `comm.recv(got, before)`; `work.wait()`; return `got`.",
    ),
    answers=("ring_shift",),
    allowed=ALLOWED,
    params={"direction": 1, "route": ROUTES[1], "next": NEXT[1], "numbers": 6},
    vary=_turned,
    structural="direction",
    probe=from_messages,
    returns=PerRank(Tensor()),
)

HALF_WRITTEN = """```python
def ring_reduce_scatter(comm, x):
    n, me = comm.size, comm.rank
    chunks = list(torch.tensor_split(x.clone(), n))   # views of a copy: chunks[c] += … works in place
    after, before = (me + 1) % n, (me - 1) % n
    for step in range(n - 1):
        outgoing = chunks[...]                         # which one leaves now?
        arrived = torch.empty_like(chunks[...])        # which one comes?
        ...                                            # exchange, and add
    return chunks[...]
```"""


def _vary_owner(draw: random.Random) -> Mapping[str, Any]:
    owner = draw.choice((1, 2, -1))
    return {"owner": owner, "owned": OWNED[owner], "numbers": draw.choice((20, 28, 36))}


REDUCE_SCATTER_HALF = Card(
    id="reduce-scatter-half",
    chapter="06",
    title="Half of a ring",
    text=f"""A reduce-scatter was begun and left half-written. Finish it.

{HALF_WRITTEN}

`ring_reduce_scatter(comm, x)` gets a row of numbers, of the same length on every rank and different on each. Cut into N
chunks by `torch.tensor_split` (lengths differ by one at most). **Rank r returns chunk {{{{owned}}}}** of the sum over all
ranks; that is a contract which an all-gather will rely on.

In N − 1 steps every rank sends one chunk to rank (r + 1) mod N and receives one from rank (r − 1) mod N: the one that came
last, now with its own numbers added, is the one that leaves next. So a rank sends what it does not own, once: S minus one
chunk.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Look at one chunk, not at one rank: the chunk that rank 2 shall own in the end. Where does its journey begin, and "
        "in which step does it leave rank 1?",
        "The owner is the last to add. The last chunk that rank r receives, in step N − 2, is the one it owns; one step "
        "earlier it received the chunk before that; each goes out one step after it came in.",
        "With rank r as owner of chunk r: `outgoing = chunks[(me - step - 1) % n]` and what comes is "
        "`chunks[(me - step - 2) % n]`. Check step n − 2. For another owner shift both by the same amount.",
    ),
    answers=("ring_reduce_scatter",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"owner": 0, "owned": OWNED[0], "numbers": 24},
    vary=_vary_owner,
    structural="owner",
    probe=from_messages,
    returns=PerRank(Tensor()),
)

RING_ALL_REDUCE = Card(
    id="ring-all-reduce",
    chapter="06",
    title="Ring all-reduce",
    text="""Write `ring_all_reduce(comm, x)`: every rank returns the sum of all ranks' `x`, in the shape and dtype of its
`x`. It may use `x` as it likes.

- Cut the tensor into N chunks, reduce-scatter, then all-gather, both round the ring {{route}}: rank r sends to rank
  {{next}} and to nobody else.
- **Bytes.** No rank sends more than 2·(S − smallest chunk), where S is the bytes of `x`. Sizes that N does not divide are
  cut unevenly, not padded.
- **Memory.** Beyond `x`, a copy of it and a chunk or two.
- **Time.** 2(N − 1) hops, all ranks at once. Taking turns, even ranks and odd ranks, may double that, no more.
- **Order.** Nothing relies on a buffer, or on when bytes move: a tensor that is under way is neither read nor written.
- **Anything.** One rank, a prime number of ranks, fewer elements than ranks, any shape and layout in memory, whole numbers.""",
    **Worth(points=12, minutes=20, difficulty=4, importance=5),
    hints=(
        "You have half of it from the exercise before. When it ends, what does each rank hold, and what does its neighbour "
        "need?",
        "The second half is the same walk without the addition: pass on the chunk that is complete, N − 1 times. For the "
        "layout, work on a flat contiguous copy and give the result the shape of `x` at the end.",
        "`flat = x.reshape(-1).clone()`; `chunks = list(flat.tensor_split(n))`; after the reduce-scatter "
        "`for step in range(n - 1)`: send `chunks[(me - step) % n]`, receive into `chunks[(me - step - 1) % n]` (on the ring "
        "0 → 1 → …); `return flat.reshape(x.shape)`.",
    ),
    answers=("ring_all_reduce",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"direction": 1, "route": ROUTES[1], "next": NEXT[1], "numbers": 9},
    vary=_turned,
    structural="direction",
    probe=from_messages,
)


def _vary_time(draw: random.Random) -> Mapping[str, Any]:
    return {
        "nbytes": draw.choice((14, 16, 64, 140)) * GB,
        "ranks": draw.choice((64, 256, 512, 1024)),
        "bandwidth": draw.choice((50, 100, 200, 450)) * GB,
        "latency": draw.choice((5, 10, 20)) * US,
    }


def _microseconds(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**params, "latency_us": round(params["latency"] / US)}


PREDICT_RING_TIME = Card(
    id="predict-ring-time",
    chapter="06",
    title="Prediction: how long does the ring take?",
    text="""The gradients of a model are {{nbytes:gb}} on every rank. A ring of {{ranks}} ranks all-reduces them over links of
{{bandwidth:gbps}} in each direction, with {{latency_us}} µs for every message. Nothing overlaps.

Before you compute anything: give an interval, in seconds, that you believe holds the answer, at most a factor of four from
end to end. `ring_seconds_interval()` returns `(low, high)`. The points are for committing yourself, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    form="prediction",
    hints=(
        "How long would it take to send the tensor once, over one link?",
        "A ring sends each rank's share almost twice. What do all the latencies together come to?",
        "`2 * (N - 1) / N * bytes / bandwidth + 2 * (N - 1) * latency`; a factor of two either way is a safe interval.",
    ),
    answers=("ring_seconds_interval",),
    params=_microseconds({"nbytes": 140 * GB, "ranks": 64, "bandwidth": 100 * GB, "latency": 10 * US}),
    vary=lambda draw: _microseconds(_vary_time(draw)),
    probe=interval,
)

CORE = (PAIR_EXCHANGE, RING_SHIFT, PREDICT_RING_TIME, REDUCE_SCATTER_HALF, RING_ALL_REDUCE)
