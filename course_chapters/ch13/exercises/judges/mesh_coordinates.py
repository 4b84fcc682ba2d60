import math
import random
from collections.abc import Sequence

from course_chapters.ch13.exercises.judges.shared import Sizes, mesh, mesh_words, plain_fault
from course_grader.judging import Case, Checked, Fault, Judging, Params, Worked, hidden, shown, table

right = Worked("mesh-coordinates")
Groups = Sequence[Sequence[int]]  # of ranks


def _groups_fault(row: tuple[Sizes, str], got: Groups, want: Groups) -> Fault | None:
    (sizes, axis), found, wanted = row, sorted(map(list, got)), sorted(map(list, want))
    if found == wanted:
        return None
    if sorted(rank for group in found for rank in group) != list(range(math.prod(sizes.values()))):
        return "not-a-partition", "every rank belongs to exactly one group of an axis."
    if any(len(group) != sizes[axis] for group in found):
        return "wrong-size", f"a group of this axis has {sizes[axis]} ranks."
    if sorted(map(sorted, found)) == wanted:
        return "other-order", "the ranks of a group come in the order of their coordinate."
    return "", f"the ranks of {found[0]} do not differ in this coordinate alone."


COLUMNS = (
    Checked("", plain_fault, words=lambda rank, sizes: f"{mesh_words(sizes)}, rank {rank}"),
    Checked("", plain_fault, words=lambda at, sizes: f"{mesh_words(sizes)}, coordinates {at}"),
    Checked("", _groups_fault, words=lambda sizes, axis: f"{mesh_words(sizes)}, axis {axis}"),
)


def _coordinate_cases(params: Params, rng: random.Random) -> list[Case]:
    example = {"dp": 2, "pp": 3, "tp": 4} if params["fastest"] == "last" else {"tp": 4, "pp": 3, "dp": 2}
    meshes = [mesh(rng, axes, choices=(2, 3, 4, 5, 6, 8)) for axes in (2, 3, 3, 4, 5)]
    odd = [{"p": 2, "q": 3}, {"q": 2, "p": 3}, {"p": 3, "q": 2}, dict(zip("feghij", (2, 2, 2, 1, 2, 17), strict=True))]
    odd += [{"tp": 1}, {"pp": 7}, {"dp": 1, "x": 5, "tp": 1}, {"cp": 1, "ep": 1}, {"b": 3, "a": 5, "c": 1, "d": 2}]

    def ranks(sizes: Sizes) -> list[int]:
        n = math.prod(sizes.values())
        return sorted({0, n - 1, *(rng.randrange(n) for _ in range(6))})

    def mixed(rank: int, sizes: Sizes) -> tuple[dict[str, int], Sizes]:
        at = list(right[0](rank, sizes).items())
        rng.shuffle(at)
        return dict(at), sizes

    def asked(which: int, given: Sequence[Sizes]) -> Sequence[tuple[object, ...]]:
        if which == 2:
            return [(sizes, axis) for sizes in given for axis in sizes]
        rows = [(rank, sizes) for sizes in given for rank in ranks(sizes)]
        return rows if which == 0 else [mixed(*row) for row in rows]

    parts = ("coordinates", "ranks", "groups")
    first = [(5, example), (right[0](17, example), example), (example, "pp")]
    return [
        *(shown("the mesh of the example", f"values:{part}", at, [first[at]]) for at, part in enumerate(parts)),
        *(hidden("other meshes", f"values:{part}", at, asked(at, meshes)) for at, part in enumerate(parts)),
        *(hidden("axes of size one, one axis, other names", "generality:sizes", at, asked(at, odd)) for at in range(3)),
    ]


JUDGING = Judging(
    shares="values:coordinates 0.25, values:ranks 0.2, values:groups 0.25, generality:sizes 0.3",
    cases=_coordinate_cases,
    verdicts=table(*COLUMNS, right=right),
    why="A rank is a number whose digits are the coordinates, each digit with its own base. An axis of size one adds "
    "a digit that is always 0. The groups of an axis partition the ranks, and a group of one axis meets a group "
    "of another in at most one rank.",
    pytorch="`init_device_mesh('cuda', (2, 3, 4), mesh_dim_names=('dp', 'pp', 'tp'))`, then `mesh.get_coordinate()` "
    "and `mesh['tp'].get_group()`.",
)

ANSWERS = r'''# %% right: worked
fastest = params("mesh-coordinates").fastest  # leave as is: "last" or "first": the axis that changes fastest


def coordinates(rank, sizes):
    """The coordinate of a rank on each axis of the mesh `sizes`."""
    at = {}
    for axis in reversed(sizes) if fastest == "last" else sizes:
        rank, at[axis] = divmod(rank, sizes[axis])
    return at


def rank_of(at, sizes):
    """The rank at these coordinates."""
    rank = 0
    for axis in sizes if fastest == "last" else reversed(sizes):
        rank = rank * sizes[axis] + at[axis]
    return rank


def groups(sizes, axis):
    """Every group of an axis, each in the order of the coordinate."""
    places = [coordinates(rank, sizes) for rank in range(math.prod(sizes.values()))]
    firsts = [at for at in places if at[axis] == 0]
    return [[rank_of({**at, axis: k}, sizes) for k in range(sizes[axis])] for at in firsts]
# %% right: torch reshapes
fastest = params("mesh-coordinates").fastest


def arranged(sizes):
    names = list(sizes) if fastest == "last" else list(sizes)[::-1]
    return names, torch.arange(math.prod(sizes.values())).reshape([sizes[name] for name in names])


def coordinates(rank, sizes):
    names, grid = arranged(sizes)
    return dict(zip(names, (grid == rank).nonzero()[0].tolist()))


def rank_of(at, sizes):
    names, grid = arranged(sizes)
    return grid[tuple(at[name] for name in names)].item()


def groups(sizes, axis):
    names, grid = arranged(sizes)
    return grid.movedim(names.index(axis), -1).reshape(-1, sizes[axis]).tolist()[::-1]
# %% wrong: turned round => values turned-round unless fastest=first
# > this is the mesh whose first axis changes fastest.
# ~ params("mesh-coordinates").fastest ==> "first"
# %% wrong: by position => values
# > take coordinates by the name of their axis; `at` may have another order.
#       rank = 0
# +     at = dict(zip(sizes, at.values()))
# %% wrong: powers of two => values
# > this is right only where sizes are powers of two.
# ~ rank, at[axis] = divmod(rank, sizes[axis]) ==> at[axis], rank = rank & (sizes[axis] - 1), rank // sizes[axis]
# %% wrong: no axes of one => generality raised
# -         rank, at[axis] = divmod(rank, sizes[axis])
# +         if sizes[axis] > 1:
# +             rank, at[axis] = divmod(rank, sizes[axis])
# %% wrong: a tuple comes back => values wrong-shape
# ~ return at ==> return tuple(at.values())
# %% wrong: neighbors => values
# > this puts consecutive ranks into the groups of every axis; only those of the fastest axis are.
# ~ [[rank_of({**at, axis: k}, sizes) for k in range(sizes[axis])] for at in firsts]
# ~~ ==> [[n * sizes[axis] + k for k in range(sizes[axis])] for n in range(len(firsts))]
# %% wrong: one group alone => values not-a-partition
# ~ for at in firsts] ==> for at in firsts[:1]]
# %% wrong: a group backwards => values other-order
# ~ for k in range(sizes[axis])] ==> for k in reversed(range(sizes[axis]))]
# %% wrong: axes with fixed names => values -
# ~ reversed(sizes) if fastest == "last" else sizes
# ~~ ==> [name for name in ("tp", "ep", "dp_shard", "x", "rows", "cp", "pp", "dp_replicate", "dp") if name in sizes]
# %% wrong: remembers groups by sizes and axis => generality ~
# ~ def groups(sizes, axis): ==> def groups(sizes, axis, kept={}):
# ~ [[rank_of({**at, axis: k}, sizes) for k in range(sizes[axis])] for at in firsts]
# ~~ ==> kept.setdefault((*sizes.values(), axis), [[rank_of({**at, axis: k}, sizes) for k in range(sizes[axis])] for at
# ~~ in firsts])
'''
