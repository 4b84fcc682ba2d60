from collections.abc import Mapping

from course_grader.exercises import Card, Number, TupleOf, Word, Worth
from course_grader.exercises.audits import causes_text

COUNT = Number(whole=True)
NAMES: Mapping[str, str] = {
    "naive": "one micro-batch at a time",
    "GPipe": "all forwards, then all backwards",
    "1F1B": "a few forwards, then one forward, one backward",
    "breadth-first": "several chunks a rank; all forwards, then all backwards",
    "interleaved 1F1B": "several chunks a rank, forwards and backwards alternating",
    "ZB-H1": "backwards in two halves, at 1F1B's memory",
    "ZB-H2": "backwards in two halves, with up to twice the forwards ahead",
}


CARD = Card(
    title="Which schedule was that?",
    text=f"""A profiler shows which rank did what and when, but not the schedule. Write `read(spans)`. `spans` is a list
of `(rank, start, end, kind, microbatch)` of one step, in **no** order; kinds are `"forward"`, `"backward"`,
`"input gradient"` and `"weight gradient"`. Return `(name, ranks, microbatches, chunks)`. The name of the schedule is
one of

{causes_text(NAMES)}

The other three are how many ranks, micro-batches and chunks per rank there were (1 where a rank had one stage).
Micro-batches are numbered from 0. There are at least two ranks and more micro-batches than ranks. Times are of any
size, and vary.""",
    **Worth(points=6, minutes=15, difficulty=3, importance=3),
    kind="more",
    hints=(
        "Which of the three numbers can simply be counted? What do several forwards of the same micro-batch on "
        "one rank mean?",
        "Sort one rank's spans by their start. The first rank's row separates most names: how many forwards come "
        "before its first backward, and how many are there in all?",
        "Weight gradients: ZB-H1 or ZB-H2, by whether rank 0 does more than `ranks` forwards before its first input "
        "gradient. Else: rank 0 with a single forward before its first backward is naive; all forwards first is GPipe "
        "or breadth-first, by chunks; else 1F1B or interleaved.",
    ),
    answers=("read",),
    params={"ranks": 4, "microbatches": 8},
    vary=lambda draw: {"ranks": draw.choice((3, 4)), "microbatches": draw.choice((6, 12))},
    returns=TupleOf({"name": Word([*NAMES]), "ranks": COUNT, "microbatches": COUNT, "chunks": COUNT}),
)
