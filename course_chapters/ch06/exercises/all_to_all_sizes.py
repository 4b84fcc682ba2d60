from course_chapters.ch06.exercises.probes import from_messages
from course_grader.exercises import Card, ListOf, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
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
    hides=("course_lib.cluster.collectives:all_to_all", "course_lib.cluster.collectives:pairwise_all_to_all"),
    params={"longest": 40},
    vary=lambda draw: {"longest": draw.randrange(30, 60)},
    probe=from_messages,
    returns=PerRank(ListOf(Tensor())),
)
