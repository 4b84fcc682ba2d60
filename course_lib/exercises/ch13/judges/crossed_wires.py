"""Judge of crossed-wires: which wire does a group cross?"""

import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial

from course_lib.exercises.ch13.judges.shared import Sizes, groups, mesh, mesh_words, row_fault, strides
from course_lib.judging import Judging, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome, Verdict

Level = tuple[str, int]


def widest_level(sizes: Sizes, axis: str, levels: Sequence[Level], which: Callable[..., bool] = all) -> str | None:
    """The first level that holds every group of an axis inside one of its units, or `any`; None for groups of one rank."""
    if sizes[axis] == 1:
        return None
    found = groups(sizes, axis)
    return next((name for name, n in levels if which(g[0] // n == g[-1] // n for g in found)), "cluster")


def _first_group(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    """The mistake that looks at rank 0's group alone."""
    last = (sizes[axis] - 1) * strides(sizes)[axis]
    return None if sizes[axis] == 1 else next((name for name, devices in levels if last < devices), "cluster")


def _by_size(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    """The mistake that compares the number of ranks."""
    return None if sizes[axis] == 1 else next((name for name, devices in levels if sizes[axis] <= devices), "cluster")


def _turned(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    return widest_level(dict(reversed(sizes.items())), axis, levels)


def _alone(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str | None:
    return levels[0][0] if sizes[axis] == 1 else widest_level(sizes, axis, levels)


LEVEL_MISTAKES = {
    "first-group": (_first_group, "rank 0's group lies inside this level, but another group straddles two units."),
    "by-size": (
        _by_size,
        "the number of ranks says nothing about where they are; neighbors on an outer axis are far apart.",
    ),
    "any-group": (partial(widest_level, which=any), "every group must lie inside one unit, not only some of them."),
    "turned-round": (_turned, "the last axis changes fastest."),
    "alone": (_alone, "a group of one rank sends nothing; return None."),
}


def _level_words(sizes: Sizes, axis: str, levels: Sequence[Level]) -> str:
    return f"{mesh_words(sizes)}, axis {axis}, {', '.join(f'{name} of {n}' for name, n in levels)}"


def _level_cases(params: Params, rng: random.Random) -> list[Case]:
    server, rack = params["servers"], params["per_rack"] * params["servers"]
    shape = {"dp": 2, "pp": params["per_rack"], "tp": server}
    levels = [("server", server), ("rack", rack)]

    def drawn() -> tuple[Sizes, str, list[Level]]:
        sizes, inner = mesh(rng, rng.choice((2, 3, 4)), 200, (2, 3, 4, 6, 8)), rng.choice((3, 4, 6, 8))
        outer = inner * rng.choice((2, 3, 4))
        named = rng.sample(("tray", "board", "rack", "pod", "hall"), 3)
        counts = (inner, outer, outer * rng.choice((2, 5)))
        levels = list(zip(named, counts, strict=True))[: rng.choice((1, 2, 3))]
        return sizes, rng.choice(list(sizes)), levels

    def whole(count: int) -> list[tuple[Sizes, str, list[Level]]]:
        """Rows in which no group reaches further than rank 0's."""
        rows = (drawn() for _ in itertools.count())
        return list(itertools.islice((row for row in rows if widest_level(*row) == _first_group(*row)), count))

    straddling = [
        ({"dp": 8, "tp": 3}, "tp", [("server", 8), ("rack", 16)]),
        ({"dp": 4, "cp": 3, "tp": 2}, "cp", [("tray", 4), ("pod", 12)]),
    ]
    straddling += [
        ({"a": 3, "b": 5}, "b", [("server", 4), ("rack", 8)]),
        ({"pp": 6, "tp": 6}, "tp", [("server", 8), ("row", 72)]),
    ]
    edges = [
        ({"dp": 3, "tp": 1}, "tp", levels),
        ({"dp": 1, "tp": server}, "dp", levels),
        ({"dp": rack * 2}, "dp", levels),
        ({"x": 2}, "x", []),
    ]
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


def _level_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    values = [got.strip().lower() if type(got) is str else got for got in outcome.value]
    return judged(case, row_fault(case, values, widest_level, _level_words, LEVEL_MISTAKES))


JUDGING = Judging(
    shares="values:levels 0.35, generality:straddling 0.45, generality:edges 0.2",
    cases=_level_cases,
    verdicts=_level_verdicts,
    why="Neighbors on an axis are a stride apart, and a group spans (size − 1) strides. Where sizes do not divide a server, some groups straddle "
    "two servers, and all groups wait for the slowest one.",
    pytorch="`init_device_mesh` numbers ranks in the same way; `NCCL_DEBUG=INFO` prints for each channel whether it goes over NVLink or the network.",
)

ANSWERS = r"""import math


# %% right: every group by its ends
def widest_level(sizes, axis, levels):
    names = list(sizes)
    stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
    size = sizes[axis]
    if size == 1:
        return None
    starts = [r for r in range(math.prod(sizes.values())) if r // stride % size == 0]
    for name, devices in levels:
        if all(r // devices == (r + (size - 1) * stride) // devices for r in starts):
            return name
    return "cluster"


# %% right: room behind each start  from: every group by its ends
# ~ r // devices == (r + (size - 1) * stride) // devices for ==> r % devices + (size - 1) * stride < devices for


# %% wrong: rank 0's group => generality first-group  from: every group by its ends
# ~ r for r in range(math.prod(sizes.values())) if r // stride % size == 0 ==> 0

# %% wrong: any group is enough => generality -  from: every group by its ends
# ~ all ==> any

# %% wrong: by size => values by-size  from: every group by its ends
# ~ all(r // devices == (r + (size - 1) * stride) // devices for r in starts) ==> size <= devices

# %% wrong: by the extent => generality -  from: every group by its ends
# ~ all(r // devices == (r + (size - 1) * stride) // devices for r in starts) ==> size * stride <= devices

# %% wrong: a group that just fits is refused => values -  from: every group by its ends
# ~ (size - 1) ==> size

# %% wrong: a group of one rank is inside => generality alone  from: every group by its ends
# -     if size == 1:
# -         return None
# +     pass

# %% wrong: the first axis changes fastest => values turned-round  from: every group by its ends
# ~ (sizes[name] for name in names[names.index(axis) + 1 :]) ==> (sizes[name] for name in names[: names.index(axis)])

# %% wrong: None outside all levels => values -  from: every group by its ends
# ~ "cluster" ==> None

# %% wrong: None without levels => generality -  from: every group by its ends
# ~ 1: ==> 1 or not levels:

# %% wrong: three levels at most => generality ~  from: every group by its ends
# ~ in levels: ==> in levels[:3]:
"""
