from collections.abc import Mapping

from course_grader.exercises import Card, ListOf, Number, Rows, Worth

NEXT: Mapping[str, str] = {
    "forward": "waits for a message from the rank whose coordinate is **one smaller**, as in a forward pass; the "
    "first rank does not wait",
    "backward": "waits for a message from the rank whose coordinate is **one larger**, as in a backward pass; the "
    "last rank does not wait",
}

CARD = Card(
    title="Which ranks wait for a hung one?",
    text="""One rank hangs just before the operations of a step. Write `stalled(sizes, rank, waits)`, which returns
the sorted list of all ranks that are stuck in the end, the hung rank included.

- `sizes` is a mesh: a dictionary from axis to size, in which the last axis changes fastest.
- `waits` lists the operations that every rank performs, in order, each as a pair (kind, axis).
- `("all", axis)` is a collective: no rank of a group gets past it unless **all** ranks of the group have joined it.
- `("next", axis)` is a pipeline message: every rank of a group {{means}}. It sends its own message only after that.

A rank that is stuck starts no later operation.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "After a tp group is stuck in an all-reduce, what happens to the data-parallel partners of each of its ranks?",
        "Keep a set of stuck ranks. For each operation, go through the groups of its axis: who joins the set?",
        '`"all"`: if any rank of a group is stuck, all are. `"next"`: everyone behind the first stuck rank of the '
        "group, in the direction of the messages.",
    ),
    answers=("stalled",),
    allowed="plain Python; your own `groups`, if its mesh has the last axis fastest.",
    params={"direction": "forward", "means": NEXT["forward"]},
    vary=lambda draw: {"direction": "backward", "means": NEXT["backward"]},
    structural="direction",
    returns=Rows(ListOf(Number("a rank", whole=True), what="place")),
)
