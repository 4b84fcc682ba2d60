from course_grader.exercises import Anything, Card, Maybe, Rows, Worth

CARD = Card(
    title="Which wire does a group cross?",
    text="""Write `widest_level(sizes, axis, levels)`. A collective is as slow as the widest level of the cluster that
it crosses, so find that level for an axis.

- `sizes` is a mesh: a dictionary from axis to size, in which the last axis changes fastest.
- `levels` is a list of pairs (name, devices in one of them), from the inside out, such as
  `[("server", {{servers}}), ("rack", {{per_rack}} * {{servers}})]`. Ranks fill the cluster in order: the first server
  first, then the next one.
- Return the name of the first level for which **every** group of the axis lies inside one unit of it. If no level
  contains them, return `"cluster"`. If the groups have one rank each, nothing is sent: return `None`.

A group may straddle two servers even if it is smaller than a server.""",
    **Worth(points=6, minutes=10, difficulty=3, importance=4),
    kind="more",
    hints=(
        "Three ranks from 6 to 8, servers of 8: is this group inside a server?",
        "A group lies inside one unit if its first and its last rank do: compare `rank // devices`.",
        "For each level: `all(g[0] // devices == g[-1] // devices for g in groups)`; the first level where this holds.",
    ),
    answers=("widest_level",),
    allowed="plain Python; your own `groups`, if its mesh has the last axis fastest; the library's meshes are "
    "switched off.",
    hides=("course_lib.parallel.mesh.layout:strides", "course_lib.parallel.mesh.wires:widest, crossed"),
    params={"servers": 8, "per_rack": 2},
    vary=lambda draw: {"servers": draw.choice((4, 6, 12)), "per_rack": draw.choice((3, 4, 5))},
    returns=Rows(Maybe(Anything("the name of a level"))),
)
