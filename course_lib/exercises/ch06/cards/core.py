"""Core exercises of chapter 06: from a pair of ranks to a ring all-reduce, and a time to predict."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch06.probes import from_messages
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.probes import PREDICTION
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


PAIR_EXCHANGE = Card(
    id="pair-exchange",
    chapter="06",
    title="Two ranks agree",
    text="""Write the smallest collective: two ranks that combine their tensors. It is the building block of halving and doubling.
Ranks 2k and 2k+1 are partners: 0 with 1, 2 with 3, and so on.

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


def _turned(draw: random.Random) -> Mapping[str, Any]:
    return {"direction": -1, "route": ROUTES[-1], "next": NEXT[-1], "numbers": draw.randrange(5, 12)}


RING_SHIFT = Card(
    id="ring-shift",
    chapter="06",
    title="Pass it on around the ring",
    text="""Write the hop that every ring algorithm consists of: all ranks pass a tensor to the next one at the same time. The ring is {{route}}.

- `ring_shift(comm, x)`: every rank sends its `x` to the next rank, {{next}}, and returns the tensor of the previous rank.
- All ranks hold tensors of the same shape and dtype. Each sends its tensor once, to the next rank only.
- All ranks act **at the same time**: for any number of ranks it takes at most four latencies.
- A single rank returns its `x` and sends nothing. In a ring of two, the next and the previous rank are the same.""",
    **Worth(points=5, minutes=8, difficulty=2, importance=5),
    hints=(
        "If every rank first sends and then receives, which rank is receiving? And if only rank 0 receives first, how "
        "long does the last rank wait?",
        "There are two ways: start sending and receiving at once (`isend` with `recv`, or one batch), or let even "
        "ranks send first and odd ranks receive first. Receive into a second tensor.",
        "`after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size` (swap the two if the route runs "
        "the other way); `work = comm.isend(x, after)`; `comm.recv(got, before)`; `work.wait()`; return `got`.",
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
        outgoing = chunks[...]                         # which chunk leaves now?
        arrived = torch.empty_like(chunks[...])        # which chunk arrives?
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
    text=f"""Complete this half-written reduce-scatter. Each rank ends with one chunk of the sum, the one that a later all-gather expects.

{HALF_WRITTEN}

- `x` is a row of numbers, equally long on all ranks. The chunks' lengths differ by at most one.
- **Rank r returns chunk {{{{owned}}}}** of the sum over all ranks.
- In each step, the chunk that arrived last, with the rank's own numbers added, is the next one to leave.
- A rank sends every chunk except the one it owns, once: S minus one chunk.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Follow one chunk instead of one rank: the chunk that rank 2 will own in the end. Where does it start, and in "
        "which step does it leave rank 1?",
        "The owner adds last. The chunk that rank r receives in the last step, N − 2, is the one it owns; one step "
        "earlier it received the chunk before that one. Each chunk leaves one step after it arrived.",
        "With rank r as owner of chunk r: `outgoing = chunks[(me - step - 1) % n]`, and the chunk that arrives is "
        "`chunks[(me - step - 2) % n]`. Check step n − 2. For another owner, shift both by the same amount.",
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
    text="""Write the whole ring all-reduce: reduce-scatter, then all-gather. Every rank returns the sum of all ranks' `x`, and no rank sends
much more than twice its tensor.

- `ring_all_reduce(comm, x)` returns the sum in the shape and dtype of `x`; it may overwrite `x`.
- **Route.** Both halves go around the ring {{route}}: rank r sends only to rank {{next}}.
- **Bytes.** No rank sends more than 2·(S − smallest chunk), where S is the bytes of `x`. If N does not divide the size, the
  chunks differ in length; do not pad.
- **Memory.** Beyond `x`, it may allocate a copy of it and a chunk or two.
- **Time.** It takes 2(N − 1) hops, with all ranks at once, or at most twice that if even and odd ranks take turns.
- **Order.** Nothing relies on a buffer or on the moment of delivery: a tensor in flight is neither read nor written.
- **Generality.** It works for one rank, a prime number of ranks, fewer elements than ranks, any shape and memory layout, and
  integers.""",
    **Worth(points=12, minutes=20, difficulty=4, importance=5),
    hints=(
        "The previous exercise is half of it. When it ends, what does each rank hold, and what does the next rank "
        "need?",
        "The second half follows the same route without the addition: pass on the finished chunk, N − 1 times. For "
        "other layouts, work on a flat contiguous copy and give the result the shape of `x` at the end.",
        "`flat = x.reshape(-1).clone()`; `chunks = list(flat.tensor_split(n))`; after the reduce-scatter, `for step "
        "in range(n - 1)`: send `chunks[(me - step) % n]`, receive into `chunks[(me - step - 1) % n]` (on the ring 0 "
        "→ 1 → …); `return flat.reshape(x.shape)`.",
    ),
    answers=("ring_all_reduce",),
    may_change=("arguments",),
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
    text="""Estimate how long one ring all-reduce takes, before you compute anything. A ring of {{ranks}} ranks all-reduces {{nbytes:gb}} of
gradients on each rank.

- The links carry {{bandwidth:gbps}} in each direction, and every message costs {{latency_us}} µs of latency. Nothing overlaps.
- `ring_seconds_interval()` returns `(low, high)` in seconds: an interval that you believe contains the answer, with `high` at
  most four times `low`.
- You earn the points for committing yourself, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How long would it take to send the tensor once over one link?",
        "In a ring, almost twice the tensor passes through every link. What do all the latencies add up to?",
        "`2 * (N - 1) / N * bytes / bandwidth + 2 * (N - 1) * latency`; a factor of two in each direction is a safe "
        "interval.",
    ),
    answers=("ring_seconds_interval",),
    params=_microseconds({"nbytes": 140 * GB, "ranks": 64, "bandwidth": 100 * GB, "latency": 10 * US}),
    vary=lambda draw: _microseconds(_vary_time(draw)),
)

CORE = (PAIR_EXCHANGE, RING_SHIFT, PREDICT_RING_TIME, REDUCE_SCATTER_HALF, RING_ALL_REDUCE)
