import itertools

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
    total = 1
    for size in sizes.values():
        total *= size
    for rank in range(total):
        at = coordinates(rank, sizes)
        del at[axis]
        members.setdefault(tuple(sorted(at.items())), []).append(rank)
    return list(members.values())


# %% right: torch reshapes
def coordinates(rank, sizes):
    grid = torch.arange(torch.Size(sizes.values()).numel()).reshape(*sizes.values())
    return dict(zip(sizes, (grid == rank).nonzero()[0].tolist()))


def rank_of(at, sizes):
    grid = torch.arange(torch.Size(sizes.values()).numel()).reshape(*sizes.values())
    return grid[tuple(at[axis] for axis in sizes)].item()


def groups(sizes, axis):
    grid = torch.arange(torch.Size(sizes.values()).numel()).reshape(*sizes.values())
    return grid.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis]).tolist()[::-1]


# %% right: any variant
from course_lib import params

FASTEST = params("mesh-coordinates").fastest


def ordered(sizes):
    return list(sizes) if FASTEST == "last" else list(sizes)[::-1]


def every(sizes):
    axes = ordered(sizes)
    return [dict(zip(axes, at)) for at in itertools.product(*(range(sizes[axis]) for axis in axes))]


def coordinates(rank, sizes):
    return every(sizes)[rank]


def rank_of(at, sizes):
    return every(sizes).index({axis: at[axis] for axis in ordered(sizes)})


def groups(sizes, axis):
    table = every(sizes)
    firsts = [at for at in table if at[axis] == 0]
    return [[table.index({**at, axis: k}) for k in range(sizes[axis])] for at in firsts]


# %% wrong: the first axis changes fastest => values turned-round unless fastest=first
def coordinates(rank, sizes):
    at = {}
    for axis in sizes:
        at[axis] = rank % sizes[axis]
        rank //= sizes[axis]
    return at


def rank_of(at, sizes):
    rank = 0
    for axis in reversed(sizes):
        rank = rank * sizes[axis] + at[axis]
    return rank


def groups(sizes, axis):
    grid = torch.arange(torch.Size(sizes.values()).numel()).reshape(*reversed(sizes.values()))
    return grid.movedim(list(reversed(sizes)).index(axis), -1).reshape(-1, sizes[axis]).tolist()


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
# ~ table = every(sizes) ==> table = kept.setdefault((*sizes.values(), axis), every(sizes))
