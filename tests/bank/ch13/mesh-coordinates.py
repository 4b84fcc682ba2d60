import math

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
