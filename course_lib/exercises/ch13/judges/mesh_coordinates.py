"""Judge of mesh-coordinates: ranks, coordinates and groups."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.ch13.judges.shared import Sizes, coordinates, groups, mesh, mesh_words, row_fault, strides
from course_lib.judging import Fault, Judging, Params, describe, oracle
from course_lib.judging.cases import hidden, shown
from course_lib.records import Case, Outcome


def rank_of(at: Mapping[str, int], sizes: Sizes, fastest: str = "last") -> int:
    """The rank at these coordinates."""
    steps = strides(sizes, fastest)
    return sum(at[axis] * steps[axis] for axis in sizes)


def _sorted_groups(value: Any) -> list[list[int]] | None:
    if type(value) not in (list, tuple) or not all(type(group) in (list, tuple) for group in value):
        return None
    if not all(type(rank) is int for group in value for rank in group):
        return None
    return sorted(map(list, value))


def _groups_fault(sizes: Sizes, axis: str, got: Any, right: list[list[int]], fastest: str) -> Fault | None:
    lead = f"{mesh_words(sizes)}, axis {axis}: "
    found = _sorted_groups(got)
    if found is None:
        return "wrong-shape", f"{lead}return a list of groups, each a list of ranks; got {describe(got)}."
    if found == sorted(right):
        return None
    held = sorted(rank for group in found for rank in group)
    if held != list(range(math.prod(sizes.values()))):
        return "not-a-partition", f"{lead}every rank belongs to exactly one group of an axis."
    if any(len(group) != sizes[axis] for group in found):
        return "wrong-size", f"{lead}a group of this axis has {sizes[axis]} ranks."
    if sorted(map(sorted, found)) == sorted(right):
        return "other-order", f"{lead}the ranks of a group come in the order of their coordinate."
    if found == sorted(groups(sizes, axis, "first" if fastest == "last" else "last")):
        return (
            "turned-round",
            f"{lead}these are the groups if the {'first' if fastest == 'last' else 'last'} axis changed fastest.",
        )
    return "", f"{lead}the ranks of {found[0]} do not differ in this coordinate alone."


def _coordinate_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    which, rows = case.args
    fastest = params["fastest"]
    other = "first" if fastest == "last" else "last"
    turned = f"the {fastest} axis changes fastest here."
    if which == 2:
        pairs = zip(rows, outcome.value, strict=True)
        found = (_groups_fault(*row, got, groups(*row, fastest), fastest) for row, got in pairs)
        return next((fault for fault in found if fault), None)
    if which == 0 and (odd := next((got for got in outcome.value if type(got) is not dict), None)) is not None:
        return "wrong-shape", f"return a dictionary from axis to coordinate; got {describe(odd)}."
    right = rank_of if which else coordinates

    def words(first: Any, sizes: Sizes) -> str:
        return f"{mesh_words(sizes)}, {'coordinates' if which else 'rank'} {first}"

    def listed(at: Mapping[str, int], sizes: Sizes) -> int:
        """Coordinates taken in the order of `at`, not by name."""
        return rank_of(dict(zip(sizes, at.values(), strict=True)), sizes, fastest)

    known: dict[str, tuple[Callable[..., Any], str]] = {"turned-round": (lambda *row: right(*row, other), turned)}
    if which:
        known["by-position"] = (listed, "take coordinates by the name of their axis; `at` may have another order.")
    return row_fault(case, outcome.value, lambda *row: right(*row, fastest), words, known)


def _coordinate_cases(params: Params, rng: random.Random) -> list[Case]:
    fastest = params["fastest"]
    example = {"dp": 2, "pp": 3, "tp": 4} if fastest == "last" else {"tp": 4, "pp": 3, "dp": 2}
    meshes = [mesh(rng, axes, choices=(2, 3, 4, 5, 6, 8)) for axes in (2, 3, 3, 4, 5)]
    odd = [{"p": 2, "q": 3}, {"q": 2, "p": 3}, {"p": 3, "q": 2}, dict(zip("feghij", (2, 2, 2, 1, 2, 17), strict=True))]
    odd += [{"tp": 1}, {"pp": 7}, {"dp": 1, "x": 5, "tp": 1}, {"cp": 1, "ep": 1}, {"b": 3, "a": 5, "c": 1, "d": 2}]

    def ranks(sizes: Sizes) -> list[int]:
        n = math.prod(sizes.values())
        return sorted({0, n - 1, *(rng.randrange(n) for _ in range(6))})

    def mixed(rank: int, sizes: Sizes) -> tuple[dict[str, int], Sizes]:
        at = list(coordinates(rank, sizes, fastest).items())
        rng.shuffle(at)
        return dict(at), sizes

    def asked(which: int, given: Sequence[Sizes]) -> list[tuple[Any, ...]]:
        if which == 2:
            return [(sizes, axis) for sizes in given for axis in sizes]
        rows = [(rank, sizes) for sizes in given for rank in ranks(sizes)]
        return rows if which == 0 else [mixed(*row) for row in rows]

    parts = ("coordinates", "ranks", "groups")
    first = [(5, example), (coordinates(17, example, fastest), example), (example, "pp")]
    return [
        *(shown("the mesh of the example", f"values:{part}", at, [first[at]]) for at, part in enumerate(parts)),
        *(hidden("other meshes", f"values:{part}", at, asked(at, meshes)) for at, part in enumerate(parts)),
        *(
            hidden("axes of size one, one axis, other names", "generality:sizes", at, asked(at, odd))
            for at in range(len(parts))
        ),
    ]


JUDGING = Judging(
    shares="values:coordinates 0.25, values:ranks 0.2, values:groups 0.25, generality:sizes 0.3",
    cases=_coordinate_cases,
    verdicts=oracle(_coordinate_fault),
    why="A rank is a number whose digits are the coordinates, each digit with its own base. An axis of size one adds a digit that is always 0. "
    "The groups of an axis partition the ranks, and a group of one axis meets a group of another in at most one rank.",
    pytorch="`init_device_mesh('cuda', (2, 3, 4), mesh_dim_names=('dp', 'pp', 'tp'))`, then `mesh.get_coordinate()` and `mesh['tp'].get_group()`.",
)

ANSWERS = r"""import math

import torch


# %% right: digit by digit
def coordinates(rank, sizes):
    at = {}
    for axis in reversed(sizes):
        at[axis] = rank % sizes[axis]
        rank //= sizes[axis]
    return at


def rank_of(at, sizes):
    rank = 0
    for axis, size in sizes.items():
        rank = rank * size + at[axis]
    return rank


def groups(sizes, axis):
    members = {}
    for rank in range(math.prod(sizes.values())):
        at = coordinates(rank, sizes)
        del at[axis]
        members.setdefault(tuple(at.items()), []).append(rank)
    return list(members.values())


# %% right: torch reshapes  from: digit by digit
def groups(sizes, axis):
    grid = torch.arange(math.prod(sizes.values())).reshape(*sizes.values())
    return grid.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()[::-1]


# %% right: any variant  from: digit by digit
# - def coordinates(rank, sizes):
# + from course_lib import params
# + STEP = 1 if params("mesh-coordinates").fastest == "last" else -1
# + def coordinates(rank, sizes):
# ~ reversed(sizes) ==> [*sizes][::-STEP]
# ~ sizes.items() ==> [*sizes.items()][::STEP]


# %% wrong: the first axis changes fastest => values turned-round unless fastest=first  from: digit by digit
# ~ reversed(sizes) ==> sizes
# ~ sizes.items() ==> reversed(sizes.items())


# %% wrong: coordinates by position => values by-position  from: digit by digit
# ~ axis, size in sizes.items() ==> one, size in zip(at.values(), sizes.values())
# ~ + at[axis] ==> + one

# %% wrong: powers of two => values -  from: digit by digit
# ~ rank % sizes[axis] ==> rank & (sizes[axis] - 1)

# %% wrong: axes of size one are left out => generality -  from: digit by digit
# -         at[axis] = rank % sizes[axis]
# -         rank //= sizes[axis]
# +         if sizes[axis] > 1:
# +             at[axis] = rank % sizes[axis]
# +             rank //= sizes[axis]

# %% wrong: a tuple comes back => values wrong-shape  from: digit by digit
# ~ return at ==> return tuple(at.values())

# %% wrong: neighbors form a group on every axis => values -  from: torch reshapes
# ~ movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()[::-1] ==> reshape(-1, sizes[axis]).tolist()

# %% wrong: one group alone => values not-a-partition  from: torch reshapes
# ~ ()[::-1] ==> ()[:1]

# %% wrong: a group backwards => values other-order  from: torch reshapes
# ~ tolist()[::-1] ==> flip(-1).tolist()

# %% wrong: three axes with fixed names => values -  from: digit by digit
# ~ reversed(sizes) ==> [name for name in ("tp", "ep", "dp_shard", "x", "rows", "cp", "pp", "dp_replicate", "dp") if name in sizes]

# %% wrong: remembers groups by sizes and axis => generality ~  from: any variant
# ~ def groups(sizes, axis): ==> def groups(sizes, axis, kept={}):
# ~ list(members.values()) ==> kept.setdefault((*sizes.values(), axis), list(members.values()))
"""
