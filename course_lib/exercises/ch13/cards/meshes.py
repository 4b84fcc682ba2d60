"""Cards of chapter 13 on meshes: the batch on a mesh, ranks and coordinates, groups, and the wires that they cross."""

from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, Maybe, Number, Rows

RUNS = (  # gpus, tp, cp, pp, sequences, length, micro
    (8_192, 8, 4, 16, 512, 32_768, 2),
    (16_384, 8, 16, 16, 128, 131_072, 1),
    (6_144, 8, 8, 8, 192, 65_536, 2),
    (4_096, 4, 8, 16, 64, 131_072, 1),
    (8_192, 8, 2, 8, 1024, 16_384, 1),
    (2_048, 4, 2, 4, 512, 16_384, 2),
    (12_288, 8, 4, 12, 384, 32_768, 1),
    (1_536, 4, 6, 4, 96, 98_304, 2),
)


def _run(row: tuple[int, ...]) -> Mapping[str, Any]:
    names = ("gpus", "tp", "cp", "pp", "sequences", "length", "micro")
    return dict(zip(names, row, strict=True))


BATCH_ON_MESH = Card(
    id="batch-on-mesh",
    chapter="13",
    title="How many micro-batches does a mesh need?",
    text="""A step trains on a fixed number of sequences, whatever mesh runs it. Find out how that batch is divided on a mesh with the axes dp, pp,
cp and tp. Write two functions:

- `micro_batches(gpus, tp, cp, pp, sequences, micro)` returns how many micro-batches of `micro` sequences **each data-parallel replica** processes
  one after another in a step of `sequences` sequences. dp is what the other axes leave of `gpus`. Return `None` where the GPUs or the
  sequences cannot be divided into whole replicas and whole micro-batches.
- `tokens_held(micro, length, cp)` returns how many tokens of such a micro-batch one rank holds, with sequences of `length` tokens.
  Return `None` where cp does not divide the length.

Example: {{gpus}} GPUs with tp = {{tp}}, cp = {{cp}}, pp = {{pp}}, {{sequences}} sequences of {{length}} tokens and micro-batches of {{micro}}.""",
    **Worth(points=4, minutes=5, difficulty=2, importance=5),
    hints=(
        "Which axes cut the model or the sequence, and which axis alone sees other sequences?",
        "dp = gpus / (tp · cp · pp). A replica gets sequences / dp of the batch. The cp ranks of a replica share the same sequences.",
        "`model = tp * cp * pp`; `None` if `gpus % model`; `dp = gpus // model`; `None` if `sequences % (dp * micro)`; else the quotient.",
    ),
    answers=("micro_batches", "tokens_held"),
    allowed="plain Python.",
    params=_run(RUNS[0]),
    vary=lambda draw: _run(draw.choice(RUNS[1:])),
    needs=("04", "10"),
    probe=rows,
    returns=Rows(Maybe(Number("micro-batches", whole=True)), Maybe(Number("tokens", whole=True))),
)

FASTEST: Mapping[str, str] = {
    "last": 'The **last** axis changes fastest, as in `torch.distributed.init_device_mesh`: on the mesh {"dp": 2, "tp": 4}, '
    "ranks 0 to 3 are one tp group",
    "first": 'The **first** axis changes fastest, as in Megatron\'s order string `tp-cp-ep-dp-pp`: on the mesh {"tp": 4, "dp": 2}, '
    "ranks 0 to 3 are one tp group",
}

MESH_COORDINATES = Card(
    id="mesh-coordinates",
    chapter="13",
    title="Ranks, coordinates and groups",
    text="""Write the map between ranks and mesh coordinates, and list the groups of an axis. A mesh is a dictionary from axis to size, in order.
{{means}}.

- `coordinates(rank, sizes)` returns a dictionary from axis to coordinate.
- `rank_of(at, sizes)` is the inverse. `at` names every axis of `sizes`, but perhaps in another order.
- `groups(sizes, axis)` returns a list with every group of this axis. A group is the list of ranks that differ in this coordinate alone,
  in the order of that coordinate. The groups may come in any order.

Axes may have any name, any size from 1, and any number of them may be there. Sizes are not always powers of two.""",
    **Worth(points=10, minutes=15, difficulty=2, importance=5),
    hints=(
        "How far apart are two ranks whose coordinates differ by 1 on one axis?",
        "That distance, the *stride*, is 1 on the fastest axis, and on any other axis the product of the sizes of all axes that change faster.",
        "Go through the axes from the fastest on: `at[axis] = rank % size`, then `rank //= size`. A group: all ranks whose coordinates agree on the other axes.",
    ),
    answers=("coordinates", "rank_of", "groups"),
    allowed="plain Python or torch; the library's meshes are switched off.",
    hides=("mesh.layout:strides",),
    params={"fastest": "last", "means": FASTEST["last"]},
    vary=lambda draw: {"fastest": "first", "means": FASTEST["first"]},
    structural="fastest",
    probe=rows,
    returns=Rows(
        Anything("a dictionary from axis to coordinate"),
        Number("the ranks", whole=True),
        Anything("a list of groups, each a list of ranks"),
    ),
)


CROSSED_WIRES = Card(
    id="crossed-wires",
    chapter="13",
    title="Which wire does a group cross?",
    text="""Write `widest_level(sizes, axis, levels)`. A collective is as slow as the widest level of the cluster that it crosses, so find that level for
an axis.

- `sizes` is a mesh: a dictionary from axis to size, in which the last axis changes fastest.
- `levels` is a list of pairs (name, devices in one of them), from the inside out, such as
  `[("server", {{servers}}), ("rack", {{per_rack}} * {{servers}})]`. Ranks fill the cluster in order: the first server first, then the next one.
- Return the name of the first level for which **every** group of the axis lies inside one unit of it. If no level contains them,
  return `"cluster"`. If the groups have one rank each, nothing is sent: return `None`.

A group may straddle two servers even if it is smaller than a server.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Three ranks from 6 to 8, servers of 8: is this group inside a server?",
        "A group lies inside one unit if its first and its last rank do: compare `rank // devices`.",
        "For each level: `all(g[0] // devices == g[-1] // devices for g in groups)`; the first level where this holds.",
    ),
    answers=("widest_level",),
    allowed="plain Python; your own `groups`, if its mesh has the last axis fastest; the library's meshes are switched off.",
    hides=("mesh.layout:strides", "mesh.wires:widest", "mesh.wires:crossed"),
    params={"servers": 8, "per_rack": 2},
    vary=lambda draw: {"servers": draw.choice((4, 6, 12)), "per_rack": draw.choice((3, 4, 5))},
    probe=rows,
    returns=Rows(Maybe(Anything("the name of a level"))),
)
