"""More exercises of chapter 06: other algorithms, other collectives, and recognizing an algorithm by its traffic."""

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
    text="""Write an all-reduce with few rounds. A ring of N ranks takes 2(N − 1) rounds, and each costs a latency; halving and doubling needs
about 2·log₂ N.

- `halving_doubling(comm, x)` returns the sum on every rank, in at most **2·⌈log₂ N⌉ + 2** rounds. In a round, a rank sends
  one message and receives one.
- If N is a power of two: exchange half of the tensor with a partner and add, then half of the remainder with the next partner,
  and so on. Then gather along the same path in reverse. No rank sends more than 2·(S − S/N) bytes, like a ring, plus or minus
  one element per round.
- For any other N, each rank beyond the largest power of two first sends its tensor to one of the other ranks, and receives
  the result at the end. Then no rank sends more than the bound for that power of two, plus S.
- It works without buffers, for any N including one, and for any shape, layout and dtype.""",
    **Worth(points=12, minutes=25, difficulty=5, importance=3),
    kind="more",
    hints=(
        "After the first exchange, each of two partners is responsible for one half. Which ranks must learn the sum "
        "of *that* half, and how far away is the next partner?",
        "Partners differ in one bit: `comm.rank ^ distance`, with distance N/2, N/4, … 1 on the way down. Keep the "
        "bounds `low, high` of what you are responsible for, and a list of the exchanges; the way back is that list "
        "in reverse.",
        "Down: `middle = (low + high) // 2`; the partner with the lower number keeps `flat[low:middle]` and sends the "
        "rest, the other one does the opposite; both have the same `low, high`, so the sizes agree. For other N: "
        "`core = 1 << (n.bit_length() - 1)`; rank r ≥ core sends to r − core, and receives from it at the end.",
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
    "round-robin": "Ranks are assigned to nodes in turn: rank r is on node r mod (N / `per_node`)",
}


HIERARCHICAL_BYTES = Card(
    id="hierarchical-bytes",
    chapter="06",
    title="Mind the link between nodes",
    text="""Write an all-reduce that sends as little as possible between nodes, where the links are slow. {{where}}, and every node has
`per_node` of the N ranks.

- `hierarchical_all_reduce(comm, x, per_node)` returns the sum on every rank.
- No **node** sends more than 2·S·(1 − 1/nodes) bytes to other nodes, counting all its ranks together, plus or minus one element
  per chunk.
- Bytes inside a node are cheap but not free: no rank sends more than 2·(`per_node` + 1)·S in total.
- It works without buffers, for one node, for one rank per node, for sizes that do not divide, and for integers.""",
    **Worth(points=10, minutes=20, difficulty=4, importance=4),
    kind="more",
    hints=(
        "How many numbers does a node as a whole have to send to the others? What can it do with its ranks' tensors "
        "first?",
        "Two designs reach the bound. Three steps: reduce-scatter inside the node, all-reduce of chunk i among the "
        "i-th ranks of all nodes, all-gather inside. Or leaders: reduce to one rank per node, a ring among the "
        "leaders, broadcast inside.",
        "Write the two halves of a ring over a *list of ranks* instead of `range(comm.size)`: `ring = [...]`, `me = "
        "ring.index(comm.rank)`, neighbors `ring[(me ± 1) % len(ring)]`. Then call them on the ranks of one node and "
        "on the i-th ranks of all nodes.",
    ),
    answers=("hierarchical_all_reduce",),
    allowed=ALLOWED,
    hides=ALL_REDUCES,
    params={"placement": "block", "where": PLACEMENTS["block"], "numbers": 4},
    vary=lambda draw: {"placement": "round-robin", "where": PLACEMENTS["round-robin"], "numbers": draw.choice((3, 5))},
    structural="placement",
    probe=from_messages,
    returns=PerRank(Tensor()),
)

ALL_TO_ALL_SIZES = Card(
    id="all-to-all-sizes",
    chapter="06",
    title="Different data for every rank",
    text="""Write an all-to-all whose row lengths only the senders know. This is how tokens reach their experts.

- Every rank has N rows of numbers, all of one dtype; `parts[d]` is for rank d. Lengths differ and may be 0.
- `all_to_all(comm, parts)` returns the list of the N rows meant for this rank, in the order of their source ranks.
  `parts[comm.rank]` is not sent, and is part of that list.
- Every number is sent once, directly to its destination, without padding.
- All ranks act at once: at most 4N latencies.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=4),
    kind="more",
    hints=(
        "A receive needs a tensor of the right length. Who can tell the receiver, and when?",
        "First exchange the counts, one number for each rank, then the rows. In round k, rank r sends to r + k and "
        "receives from r − k: every rank receives from exactly one other, so there is no queue.",
        "`for k in range(1, n): to, source = (me + k) % n, (me - k) % n`; exchange "
        "`torch.tensor([parts[to].numel()])`; then `got[source] = parts[0].new_empty(int(count))` and exchange the "
        "rows. Start both halves of each exchange at once.",
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
    text="""Fit two lines to one measurement. A library has two protocols, and uses whichever is faster: one with little latency that copies a
lot, for small messages, and one with more latency and a higher rate, for large ones. So seconds ≈ latency + bytes / bandwidth,
with one pair of constants below some size and another pair above it.

- `fit(sizes, seconds)` gets two lists: sizes in ascending order from 1 kB to 1 GB, and times that are uncertain by about one percent.
- It returns `(switch, (latency, bandwidth), (latency, bandwidth))`: the size in bytes at which the second protocol takes over,
  then the constants of the first and of the second, in seconds and bytes/s.
- Each line must predict new times in its own range within 6 %.
- The switch must be within a factor of 2.5 of the size at which the lines cross.""",
    **Worth(points=8, minutes=15, difficulty=4, importance=4),
    kind="more",
    hints=(
        "The largest time is a million times the smallest. Which points determine a least-squares fit of seconds, and "
        "what do they reveal about a latency of microseconds?",
        "The uncertainty is a percentage of each value, so minimize *relative* errors: divide each equation by its "
        "time. Then try every place to cut the list in two, fit both parts, and keep the cut with the smallest error.",
        "One line: `A = np.stack([1 / t, n / t], 1)`; `(alpha, per_byte), *_ = np.linalg.lstsq(A, np.ones(len(t)))`; "
        "error `((A @ [alpha, per_byte] - 1) ** 2).sum()`; bandwidth `1 / per_byte`. Cut at every i that leaves at "
        "least three points on each side.",
    ),
    answers=("fit",),
    allowed="the standard library and numpy.",
    params={"alphas": (5 * US, 40 * US), "bandwidths": (4 * GB, 80 * GB)},
    vary=_vary_fit,
    returns=TupleOf({"switch": Number("bytes"), "small": LINE, "large": LINE}),
)

ALGORITHMS: Mapping[str, str] = {
    "naive root": "all ranks send to rank 0, which sends the sum back to each",
    "tree": "reduce up a binomial tree, broadcast down",
    "ring": "reduce-scatter and all-gather of chunks around a ring",
    "whole-tensor ring": "every rank's whole tensor goes around the ring once",
    "halving-doubling": "exchanges with partners at distances of powers of two, first of halves, then of quarters, and so on",
    "hierarchical": "rings inside each node, and rings of chunks between nodes",
    "all-to-all": "no sum: every rank sends a different N-th of its tensor to each rank",
    "everyone to everyone": "every rank sends its whole tensor to all others, and each adds them up itself",
}


def _names() -> str:
    return "\n".join(f'- `"{name}"`: {meaning}' for name, meaning in ALGORITHMS.items())


NAME_THE_ALGORITHM = Card(
    id="name-the-algorithm",
    chapter="06",
    title="Which algorithm was that?",
    text=f"""Recognize a collective algorithm from the bytes that a switch counted. The documentation says what a library should do; the counters say what
it did.

- `name_algorithm(matrix, nbytes)`: `matrix[src][dst]` is the number of bytes that one rank sent to another during one call;
  `nbytes` is the size of one rank's tensor.
- It returns one of the eight names below.
- You see eight matrices of {{{{ranks}}}} ranks. The unseen ones have five to sixteen ranks and tensors of other sizes. Chunks are
  as equal as elements of 4 bytes allow.
- If the number of ranks is not a power of two, halving-doubling folds the surplus ranks in first. Nodes consist of two to four
  consecutive ranks.

The names:

{_names()}""",
    **Worth(points=6, minutes=10, difficulty=3, importance=3),
    kind="more",
    hints=(
        "Which of the eight fill the whole matrix? Which have only one entry per row? Bytes decide the rest.",
        "Count the partners of each rank. One: a ring; then compare the entry with `nbytes`. All: compare again. Only "
        "rank 0 as a partner: the root. Three algorithms are left.",
        "In a tree, N − 1 pairs of ranks exchange whole tensors, one in each direction. In halving-doubling, rank 0 "
        "first exchanges half a tensor with rank N/2 (take the largest power of two for N). The remaining one is "
        "hierarchical.",
    ),
    answers=("name_algorithm",),
    params={"ranks": 8, "numbers": 4096},
    vary=lambda draw: {"numbers": draw.choice((1024, 3072, 8192, 10240))},
    returns=Word(ALGORITHMS),
)

EQUAL_UP_TO_ROUNDING = Card(
    id="equal-up-to-rounding",
    chapter="06",
    title="Equal up to rounding",
    text="""Write the comparison that a test of collectives needs. Sums in another order differ in their last digits: a ring, a tree and rank 0's
own loop give three right answers, no two of them equal bit for bit (*pytorch/pytorch, pull request 125190*). The test must accept
all three and still find real errors.

- `same_sum(got, inputs)`: `inputs` is the list of all ranks' tensors; `got` is what an all-reduce returned on one rank, in the
  same shape and dtype.
- Return `True` if `got` can be their sum in *some* order of additions in that dtype, and `False` if it cannot.
- There are large numbers that nearly cancel, small ones of about 10⁻⁶, tensors in bfloat16, and up to {{ranks}} ranks.
- Wrong sums omit one rank in a single element, count one rank twice, or were computed with fewer bits than the dtype has.""",
    **Worth(points=6, minutes=10, difficulty=4, importance=4),
    kind="more",
    hints=(
        "When large numbers cancel, how large can the rounding error be compared with the *sum*? And compared with "
        "the terms?",
        "Each addition rounds by at most half a unit in the last place of its result, and no partial sum exceeds "
        "Σ|x|. So the error after N − 1 additions is bounded, element by element.",
        "`exact = sum(x.double() for x in inputs)`; `bound = len(inputs) * torch.finfo(got.dtype).eps * "
        "sum(x.double().abs() for x in inputs)`; compare `(got.double() - exact).abs()` with it, elementwise.",
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
