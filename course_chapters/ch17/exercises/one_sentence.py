from collections.abc import Mapping

from course_grader.exercises import Anything, Card, ListOf, Rows, Worth

SHARING: Mapping[str, str] = {
    "in turn": "The axes communicate one after another, so a placement takes the **sum** of what they leave exposed",
    "together": "The axes communicate at the same time, so a placement takes the **longest** of what they "
    "leave exposed",
}

CARD = Card(
    title="The one sentence, as a placement",
    text="""Map the hierarchy of communication onto the hierarchy of bandwidth. Write `place(axes, levels)`, which
returns the list of all axes, outermost first, in an order that leaves the fewest seconds of communication **exposed**.
The last axis changes fastest.

- `axes` is a dictionary from axis to (size, sent, hidden): its ranks, the bytes that a GPU sends along it in a step,
  and the seconds of computation that can hide this traffic. An axis of size 1 sends nothing. The order of the
  dictionary means nothing.
- `levels` is a list of (devices, bandwidth), from the inside out, such as
  `[({{server}}, 450e9), ({{rack}}, 100e9), (4096, 50e9)]`: GPUs of one unit, and bytes per second of one GPU. Ranks
  fill the units in order.
- An axis uses the bandwidth of the first level for which **every** group of the axis lies inside one unit. The last
  level holds all ranks.
- An axis leaves `max(0, sent / bandwidth - hidden)` seconds exposed. {{means}}.
- Of equally good orders, return any. There are at most five axes and 256 ranks, and sizes need not be powers of
  two.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Does the axis that sends the most bytes need the fastest wire if all of its bytes are hidden behind "
        "computation?",
        "Write a function for the exposed seconds of one order. An axis's stride is the product of the sizes behind "
        "it; its groups follow from stride and size.",
        "`min(itertools.permutations(axes), key=exposed)`; a group that starts at rank r lies inside a unit of d GPUs "
        "if `r // d == (r + (size - 1) * stride) // d`.",
    ),
    answers=("place",),
    allowed="plain Python and `itertools`; your own `groups` of chapter 13. The library's meshes are switched off.",
    hides=(
        "course_lib.parallel.mesh.layout:strides",
        "course_lib.parallel.mesh.cost:placements, axis_seconds",
        "course_lib.parallel.mesh.wires:widest, crossed",
    ),
    params={"sharing": "in turn", "means": SHARING["in turn"], "server": 8, "rack": 32},
    vary=lambda draw: {
        "sharing": "together",
        "means": SHARING["together"],
        "server": draw.choice((4, 8)),
        "rack": draw.choice((16, 64)),
    },
    structural="sharing",
    needs=("03", "13"),
    returns=Rows(ListOf(Anything("an axis"), what="place")),
)
