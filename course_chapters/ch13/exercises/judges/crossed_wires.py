import itertools
from collections.abc import Sequence

from course_chapters.ch13.exercises.judges.shared import Sizes, mesh, mesh_words, plain_fault, strides
from course_grader.judging import Case, Checked, Judging, Params, Random, Worked, hidden, shown, table
from course_grader.judging.diagnoses import plain_word

Level = tuple[str, int]
right = Worked("crossed-wires")


def _first_group(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    last = (sizes[axis] - 1) * strides(sizes)[axis]
    return None if sizes[axis] == 1 else next((name for name, devices in levels if last < devices), "cluster")


def _level_words(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str:
    return f"{mesh_words(sizes)}, axis {axis}, {', '.join(f'{name} of {n}' for name, n in levels)}"


def _level_cases(params: Params, rng: Random) -> list[Case]:
    server, rack = params["servers"], params["per_rack"] * params["servers"]
    shape = {"dp": 2, "pp": params["per_rack"], "tp": server}
    levels = [("server", server), ("rack", rack)]

    def drawn() -> tuple[Sizes, str, list[Level]]:
        sizes, inner = mesh(rng, rng.choice((2, 3, 4)), 200, (2, 3, 4, 6, 8)), rng.choice((3, 4, 6, 8))
        outer = inner * rng.choice((2, 3, 4))
        named = rng.sample(("tray", "board", "rack", "pod", "hall"), 3)
        counts = (inner, outer, outer * rng.choice((2, 5)))[: rng.choice((1, 2, 3))]
        return sizes, rng.choice(list(sizes)), list(zip(named, counts, strict=False))

    def whole(count: int) -> list[tuple[Sizes, str, list[Level]]]:
        """Rows in which no group reaches further than rank 0's."""
        rows = (drawn() for _ in itertools.count())
        return list(itertools.islice((row for row in rows if right(*row) == _first_group(*row)), count))

    straddling = [
        ({"dp": 8, "tp": 3}, "tp", [("server", 8), ("rack", 16)]),
        ({"dp": 4, "cp": 3, "tp": 2}, "cp", [("tray", 4), ("pod", 12)]),
        ({"a": 2, "b": 3}, "a", [("tray", 5), ("pod", 10)]),
        ({"a": 3, "b": 5}, "b", [("server", 4), ("rack", 8)]),
        ({"pp": 6, "tp": 6}, "tp", [("server", 8), ("row", 72)]),
    ]
    edges = [({"dp": 3, "tp": 1}, "tp", levels), ({"dp": 1, "tp": server}, "dp", levels)]
    edges += [({"dp": rack * 2}, "dp", levels), ({"x": 2, "tp": 2}, "x", [])]
    edges += [({"tp": server}, "tp", [("server", server)]), ({"tp": server + 1}, "tp", [("server", server)])]
    named = [("a", 2), ("b", 4), ("c", 8), ("d", 16)]
    edges += [({"dp": 2, "x": 8}, "dp", each) for each in (named, named[:3], named[3:])]
    edges += [({"dp": 9, "tp": 3}, "tp", [("server", 26), ("rack", 52)])]  # the last group alone straddles
    return [
        shown("a mesh that fills servers", "values:levels", 0, [(shape, axis, levels) for axis in ("tp", "dp")]),
        hidden("other meshes", "values:levels", 0, whole(24)),
        hidden("groups that straddle", "generality:straddling", 0, straddling + [drawn() for _ in range(12)]),
        hidden("groups of one rank, groups that just fit, no level", "generality:edges", 0, edges),
    ]


JUDGING = Judging(
    shares="values:levels 0.35, generality:straddling 0.45, generality:edges 0.2",
    cases=_level_cases,
    verdicts=table(
        Checked("", lambda row, got, want: plain_fault(row, plain_word(got), want), words=_level_words), right=right
    ),
    why="Neighbors on an axis are a stride apart, and a group spans (size − 1) strides. Where sizes do not divide a "
    "server, some groups straddle two servers, and all groups wait for the slowest one.",
    pytorch="`init_device_mesh` numbers ranks in the same way; `NCCL_DEBUG=INFO` prints for each channel whether it "
    "goes over NVLink or the network.",
)

ANSWERS = r'''# %% right: worked
def widest_level(sizes, axis, levels):
    """The first level that holds every group of the axis inside one of its units; None for groups of one rank."""
    names, size = list(sizes), sizes[axis]
    stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
    firsts = [rank for rank in range(math.prod(sizes.values())) if rank // stride % size == 0]
    if size == 1:
        return None
    for name, devices in levels:
        if all(rank // devices == (rank + (size - 1) * stride) // devices for rank in firsts):
            return name
    return "cluster"
# %% right: room behind each start
# ~ // devices == (rank + (size - 1) * stride) // ==> % devices + (size - 1) * stride <
# %% wrong: first group => generality
# > this level holds some groups of the axis, rank 0's for one, but another group straddles two of its units.
# ~ [rank for rank in range(math.prod(sizes.values())) if rank // stride % size == 0] ==> [0]
# %% wrong: by size => values
# > the number of ranks says nothing about where they are; neighbors on an outer axis are far apart.
# ~ all(rank // devices == (rank + (size - 1) * stride) // devices for rank in firsts) ==> size <= devices
# %% wrong: by extent => generality
# > a group may straddle two units although a unit has as many devices as the group spans ranks.
# ~ all(rank // devices == (rank + (size - 1) * stride) // devices for rank in firsts) ==> size * stride <= devices
# %% wrong: one too far => values
# > the last rank of a group is (size − 1) strides after its first, not size strides.
# ~ (size - 1) ==> size
# %% wrong: alone => generality
# > a group of one rank sends nothing; return None.
# -     if size == 1:
# -         return None
# %% wrong: turned round => values
# > the last axis changes fastest.
# ~ names[names.index(axis) + 1 :] ==> names[: names.index(axis)]
# %% wrong: none for cluster => values
# > None is for groups that send nothing; groups that no level contains cross the cluster.
# ~ "cluster" ==> None
# %% wrong: none without levels => generality none-for-cluster
# ~ if size == 1: ==> if size == 1 or not levels:
# %% wrong: three levels at most => generality ~
# ~ in levels: ==> in levels[:3]:
'''
