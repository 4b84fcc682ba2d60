"""Further exercises of chapter 06: other algorithms, other collectives, and reading what a cluster did."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch06.cards.core import ALL_REDUCES
from course_lib.exercises.ch06.probes import from_messages
from course_lib.exercises.point_to_point import ALLOWED
from course_lib.exercises.returns import ListOf, Number, PerRank, Tensor, TupleOf, Word
from course_lib.units import GB, US

LINE = TupleOf({"latency": Number("seconds"), "bandwidth": Number("bytes a second")})

HALVING_DOUBLING = Card(
    id="halving-doubling",
    chapter="06",
    title="Halve, then double",
    text="""A ring of N ranks takes 2(N − 1) rounds, and every round costs a latency. Write `halving_doubling(comm, x)`: the
sum on every rank, in at most **2·⌈log₂ N⌉ + 2** rounds, in each of which a rank sends one message and receives one.

With N a power of two: exchange one half of the tensor with a partner and add, then half of what is left with the next
partner, and so on; then the same way back, gathering. No rank sends more than 2·(S − S/N) bytes, a ring's, give or take one
element a round. For any other N, ranks beyond the largest power of two hand their tensor to one of the others first and get
the result last; then no rank sends more than that, with the power of two for N, plus S.

Any N, one included; any shape, layout and dtype; no buffers.""",
    **Worth(points=12, minutes=25, difficulty=5, importance=3),
    kind="more",
    hints=(
        "After the first exchange each of two partners is responsible for one half. Which ranks must know *its* half, and "
        "how far away is the next partner?",
        "Partners differ in one bit: `comm.rank ^ distance`, with distance N/2, N/4, … 1 on the way down. Keep the bounds "
        "`low, high` of what you are responsible for, and a list of the steps taken; the way back is that list reversed.",
        "Down: `middle = (low + high) // 2`; the partner with the lower number keeps `flat[low:middle]` and sends the rest, "
        "the other one the opposite; both have the same `low, high`, so sizes agree. For other N: `core = 1 << "
        "(n.bit_length() - 1)`; rank r ≥ core sends to r − core, and receives from it at the end.",
    ),
    answers=("halving_doubling",),
    allowed=ALLOWED,
    hides=(*ALL_REDUCES, "collectives:_halve_and_double"),
    params={"numbers": 5},
    vary=lambda draw: {"numbers": draw.randrange(4, 9)},
    probe=from_messages,
    returns=PerRank(Tensor()),
)

PLACEMENTS: Mapping[str, str] = {
    "block": "Nodes hold consecutive ranks: rank r is on node r // `per_node`",
    "round-robin": "Ranks were dealt out in turn: rank r is on node r mod (N / `per_node`)",
}


def _vary_placement(draw: random.Random) -> Mapping[str, Any]:
    return {"placement": "round-robin", "where": PLACEMENTS["round-robin"], "numbers": draw.choice((3, 5))}


HIERARCHICAL_BYTES = Card(
    id="hierarchical-bytes",
    chapter="06",
    title="Mind the wire between nodes",
    text="""{{where}}, and every node has `per_node` of the N ranks. The wire between nodes is the slow one.

Write `hierarchical_all_reduce(comm, x, per_node)`: the sum on every rank, where no **node** sends more than
2·S·(1 − 1/nodes) bytes to other nodes, its ranks counted together, give or take an element a chunk. Inside a node bytes are
cheap, but not free: no rank sends more than 2·(`per_node` + 1)·S in all.

One node, one rank a node, sizes that do not divide, whole numbers; no buffers.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "How many numbers does a node as a whole have to tell the others? What can it do to its ranks' tensors before it "
        "says anything?",
        "Two ways reach the bound. Three steps: reduce-scatter inside the node, all-reduce of chunk i among the i-th ranks of "
        "all nodes, all-gather inside. Or leaders: reduce to one rank a node, ring among the leaders, broadcast inside.",
        "Write the two halves of a ring over a *list of ranks* instead of `range(comm.size)`: `ring = [...]`, `me = "
        "ring.index(comm.rank)`, neighbours `ring[(me ± 1) % len(ring)]`. Then call them on the node's ranks and on the ranks "
        "of one place across nodes.",
    ),
    answers=("hierarchical_all_reduce",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"placement": "block", "where": PLACEMENTS["block"], "numbers": 4},
    vary=_vary_placement,
    structural="placement",
    probe=from_messages,
    returns=PerRank(Tensor()),
)

ALL_TO_ALL_SIZES = Card(
    id="all-to-all-sizes",
    chapter="06",
    title="Something else for everyone",
    text="""Every rank has N rows of numbers, one for each rank: `parts[d]` is for rank d. Lengths differ, may be 0, and **only
the sender knows them**. All are of one dtype. Write `all_to_all(comm, parts)`: the list of N rows that came for this rank,
in the order of the ranks they came from; `parts[comm.rank]` stays at home and is part of the list.

Every number crosses once, straight to where it belongs, not padded and not by way of another rank. All ranks act at once: it
takes 4N latencies at most. This is how tokens find their experts.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "A receive needs a tensor of the right length. Who can tell the receiver, and when?",
        "First an exchange of counts, one number for each rank, then the rows. In round k let rank r send to r + k and "
        "receive from r − k: every rank is spoken to by exactly one other, so nobody queues.",
        "`for k in range(1, n): to, source = (me + k) % n, (me - k) % n`; exchange `torch.tensor([parts[to].numel()])`; then "
        "`got[source] = parts[0].new_empty(int(count))` and exchange the rows. Both halves of each exchange at once.",
    ),
    answers=("all_to_all",),
    allowed=ALLOWED,
    hides=("collectives:all_to_all", "collectives:pairwise_all_to_all"),
    params={"longest": 40},
    vary=lambda draw: {"longest": draw.randrange(30, 60)},
    probe=from_messages,
    returns=PerRank(ListOf(Tensor())),
)


def _vary_fit(draw: random.Random) -> Mapping[str, Any]:
    slow, fast = draw.choice((4, 6, 8)), draw.choice((20, 30, 40))
    return {"alphas": (slow * US, fast * US), "bandwidths": (draw.choice((3, 5)) * GB, draw.choice((40, 60, 80)) * GB)}


ALPHA_BETA_FIT = Card(
    id="alpha-beta-fit",
    chapter="06",
    title="Two lines in one measurement",
    text="""A library has two ways to send: one that starts soon and copies a lot, for small messages, and one that starts late
and runs fast, for large ones. It takes whichever is quicker. So seconds ≈ latency + bytes / bandwidth, with one pair of
constants below some size and another pair above.

Write `fit(sizes, seconds)` for measured lists, sizes ascending from 1 kB to 1 GB and every time uncertain by about a
per cent: return `(switch, (latency, bandwidth), (latency, bandwidth))`, the size in bytes from which on the second way is
taken, then the constants of the first and of the second way, in seconds and bytes/s.

Each line must predict fresh times of its own region within 6 %, and the switch must lie within a factor of 2.5 of where the
lines cross.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=4),
    kind="more",
    hints=(
        "The largest time is a million times the smallest. Which points decide a least-squares fit of seconds, and what do "
        "they know about a latency of microseconds?",
        "Uncertainty is a share of each value, so minimise *relative* errors: divide each row of the system by its time. Then "
        "try every place to cut the list in two, fit both parts, and keep the cut with the smallest error.",
        "One line: `A = np.stack([1 / t, n / t], 1)`; `(alpha, beta), *_ = np.linalg.lstsq(A, np.ones(len(t)))`; error "
        "`((A @ [alpha, beta] - 1) ** 2).sum()`. Cut at every i with three points or more on each side.",
    ),
    answers=("fit",),
    allowed="the standard library and numpy.",
    params={"alphas": (5 * US, 40 * US), "bandwidths": (4 * GB, 80 * GB)},
    vary=_vary_fit,
    returns=TupleOf({"switch": Number("bytes"), "small": LINE, "large": LINE}),
)

ALGORITHMS: Mapping[str, str] = {
    "naive root": "all send to rank 0, which answers all",
    "tree": "reduce up a binomial tree, broadcast down",
    "ring": "reduce-scatter and all-gather of chunks round a ring",
    "whole-tensor ring": "every rank's whole tensor goes round the ring once",
    "halving-doubling": "partners at distances of powers of two, halves of halves",
    "hierarchical": "rings inside nodes, and rings of chunks between them",
    "all-to-all": "no sum: every rank has another N-th for each rank",
    "everyone to everyone": "all send their whole tensor to all, and add up alone",
}


def _names() -> str:
    return "\n".join(f'- `"{name}"`: {meaning}' for name, meaning in ALGORITHMS.items())


NAME_THE_ALGORITHM = Card(
    id="name-the-algorithm",
    chapter="06",
    title="What was that?",
    text=f"""All that a switch can tell you is who sent how many bytes to whom. Write `name_algorithm(matrix, nbytes)`:
`matrix[src][dst]` are the bytes that went from one rank to another during one call, `nbytes` is the size of one rank's tensor.
Return one of

{_names()}

You see eight matrices of {{{{ranks}}}} ranks; the unseen ones have five to sixteen ranks, and tensors of other sizes. Chunks
are as equal as elements of 4 bytes allow. Where the number of ranks is no power of two, halving-doubling folds the surplus
ranks in first; nodes are of two to four consecutive ranks.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=3),
    kind="more",
    hints=(
        "Which of the eight fill the whole matrix? Which have only one entry a row? Bytes decide the rest.",
        "Count the partners of each rank. One: a ring; then compare the entry with `nbytes`. All: compare again. Partners of "
        "rank 0 only: the root. That leaves three.",
        "A tree has N − 1 pairs that speak, each way with whole tensors. In halving-doubling rank 0 first exchanges half a "
        "tensor with rank N/2 (with the largest power of two for N). What remains is the hierarchy.",
    ),
    answers=("name_algorithm",),
    params={"ranks": 8, "numbers": 4096},
    vary=lambda draw: {"numbers": draw.choice((1024, 3072, 8192, 10240))},
    returns=Word(ALGORITHMS),
)

EQUAL_UP_TO_ROUNDING = Card(
    id="equal-up-to-rounding",
    chapter="06",
    title="Equal, but for rounding",
    text="""Sums in another order differ in their last digits: a ring, a tree and rank 0's own loop give three right answers, no two
of them equal to the bit (*pytorch/pytorch, pull request 125190*). A test of collectives must accept all three, and still find
what is truly wrong.

Write `same_sum(got, inputs)`: `inputs` is the list of all ranks' tensors, `got` what an all-reduce returned on one rank, of the
same shape and dtype. Return `True` if `got` can be their sum in *some* order of additions in that dtype, `False` if it cannot.

There are large numbers that nearly cancel, small ones of 10⁻⁶, tensors in bfloat16, and up to {{ranks}} ranks. Wrong answers
lack one rank in a single element, have one rank twice, or were added up in fewer bits than the dtype has.""",
    **Worth(points=6, minutes=10, difficulty=4, importance=4),
    kind="more",
    hints=(
        "Where large numbers cancel, how large can the rounding error be compared with the *sum*? And compared with what was "
        "added up?",
        "Each addition rounds by at most half a unit in the last place of its result, and no partial sum exceeds Σ|x|. So the "
        "error after N − 1 additions is bounded, element by element.",
        "`exact = sum(x.double() for x in inputs)`; `bound = len(inputs) * torch.finfo(got.dtype).eps * sum(x.double().abs() "
        "for x in inputs)`; compare `(got.double() - exact).abs()` with it, everywhere.",
    ),
    answers=("same_sum",),
    params={"ranks": 16},
    vary=lambda draw: {"ranks": draw.choice((12, 16, 20))},
)

PROBLEMS = (
    HALVING_DOUBLING,
    HIERARCHICAL_BYTES,
    ALL_TO_ALL_SIZES,
    NAME_THE_ALGORITHM,
    ALPHA_BETA_FIT,
    EQUAL_UP_TO_ROUNDING,
)
