from collections.abc import Mapping

from course_chapters.ch06.exercises.probes import from_messages
from course_chapters.ch06.exercises.shared import ALL_REDUCES
from course_grader.exercises import Card, Params, PerRank, Random, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

OWNED: Mapping[int, str] = {0: "r", 1: "(r + 1) mod N", 2: "(r + 2) mod N", -1: "(r − 1) mod N"}

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


def _vary_owner(draw: Random) -> Params:
    owner = draw.choice((1, 2, -1))
    return {"owner": owner, "owned": OWNED[owner], "numbers": draw.choice((20, 28, 36))}


CARD = Card(
    title="Half of a ring",
    text=f"""Complete this half-written reduce-scatter. Each rank ends with one chunk of the sum, the one that a later
all-gather expects.

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
