from course_chapters.ch06.exercises.probes import from_messages
from course_chapters.ch06.exercises.shared import NEXT, ROUTES, turned
from course_grader.exercises import Card, PerRank, Tensor, Worth
from course_grader.exercises.point_to_point import ALLOWED

CARD = Card(
    title="Pass it on around the ring",
    text="""Write the hop that every ring algorithm consists of: all ranks pass a tensor to the next one at the same
time. The ring is {{route}}.

- `ring_shift(comm, x)`: every rank sends its `x` to the next rank, {{next}}, and returns the tensor of the previous
  rank.
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
    vary=turned,
    structural="direction",
    probe=from_messages,
    returns=PerRank(Tensor()),
)
