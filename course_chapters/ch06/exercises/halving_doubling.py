from course_chapters.ch06.exercises.probes import from_messages
from course_chapters.ch06.exercises.shared import ALL_REDUCES
from course_grader.exercises import Card, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="Halve, then double",
    text="""Write an all-reduce with few rounds. A ring of N ranks takes 2(N − 1) rounds, and each costs a latency;
halving and doubling needs about 2·log₂ N.

- `halving_doubling(comm, x)` returns the sum on every rank, in at most **2·⌈log₂ N⌉ + 2** rounds. In a round, a rank
  sends one message and receives one.
- If N is a power of two: exchange half of the tensor with a partner and add, then half of the remainder with the next
  partner, and so on. Then gather along the same path in reverse. No rank sends more than 2·(S − S/N) bytes, like a
  ring, plus or minus one element per round.
- For any other N, each rank beyond the largest power of two first sends its tensor to one of the other ranks, and
  receives the result at the end. Then no rank sends more than the bound for that power of two, plus S.
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
    hides=(*ALL_REDUCES, "course_lib.cluster.collectives:_halve_and_double"),
    params={"numbers": 5},
    vary=lambda draw: {"numbers": draw.randrange(4, 9)},
    probe=from_messages,
    returns=PerRank(Tensor()),
)
