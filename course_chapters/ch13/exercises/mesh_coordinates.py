from course_grader.exercises import Card, DictOf, ListOf, Number, Rows, Worth

FASTEST = {
    "last": 'The **last** axis changes fastest, as in `torch.distributed.init_device_mesh`: on the mesh {"dp": '
    '2, "tp": 4}, '
    "ranks 0 to 3 are one tp group",
    "first": 'The **first** axis changes fastest, as in Megatron\'s order string `tp-cp-ep-dp-pp`: on the mesh {"tp": '
    '4, "dp": 2}, '
    "ranks 0 to 3 are one tp group",
}

CARD = Card(
    title="Ranks, coordinates and groups",
    text="""Write the map between ranks and mesh coordinates, and list the groups of an axis. A mesh is a dictionary
from axis to size, in order. {{means}}.

- `coordinates(rank, sizes)` returns a dictionary from axis to coordinate.
- `rank_of(at, sizes)` is the inverse. `at` names every axis of `sizes`, but perhaps in another order.
- `groups(sizes, axis)` returns a list with every group of this axis. A group is the list of ranks that differ in this
  coordinate alone, in the order of that coordinate. The groups may come in any order.

A mesh has any number of axes, with any names and any sizes from 1 on; sizes are not always powers of two.""",
    **Worth(points=10, minutes=15, difficulty=2, importance=5),
    hints=(
        "How far apart are two ranks whose coordinates differ by 1 on one axis?",
        "That distance, the *stride*, is 1 on the fastest axis, and on any other axis the product of the sizes of all "
        "axes that change faster.",
        "Go through the axes from the fastest on: `at[axis] = rank % size`, then `rank //= size`. A group: all ranks "
        "whose coordinates agree on the other axes.",
    ),
    answers=("coordinates", "rank_of", "groups"),
    allowed="plain Python or torch; the library's meshes are switched off.",
    hides=("course_lib.parallel.mesh.layout:strides",),
    params={"fastest": "last", "means": FASTEST["last"]},
    vary=lambda draw: {"fastest": "first", "means": FASTEST["first"]},
    structural="fastest",
    returns=Rows(
        DictOf({}, more=True),
        Number("the ranks", whole=True),
        ListOf(ListOf(Number("a rank", whole=True)), what="group"),
    ),
)
