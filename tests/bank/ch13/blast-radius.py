import math


# %% right: a set that grows
def stalled(sizes, rank, waits):
    stuck = {rank}
    for kind, axis in waits:
        names = list(sizes)
        stride = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
        for each in range(math.prod(sizes.values())):
            at = each // stride % sizes[axis]
            behind = range(sizes[axis]) if kind == "all" else range(at)
            if any(each + (k - at) * stride in stuck for k in behind):
                stuck = stuck | {each}
    return sorted(stuck)


# %% right: a box
def stalled(sizes, rank, waits):
    low, high, rest = {}, {}, rank
    for axis in reversed(sizes):
        rest, place = divmod(rest, sizes[axis])
        low[axis], high[axis] = place, place
    for kind, axis in waits:
        high[axis] = sizes[axis] - 1
        if kind == "all":
            low[axis] = 0
    box = [0]
    for axis, size in sizes.items():
        box = [size * each + place for each in box for place in range(low[axis], high[axis] + 1)]
    return box


# %% right: any variant  from: a box
# - def stalled(sizes, rank, waits):
# + from course_lib import params
# + DIRECTION = params("blast-radius").direction
# + def stalled(sizes, rank, waits):
# -         high[axis] = sizes[axis] - 1
# -         if kind == "all":
# +         if kind == "all" or DIRECTION == "forward":
# +             high[axis] = sizes[axis] - 1
# +         if kind == "all" or DIRECTION == "backward":

# %% wrong: a set that grows while it is read => values -  from: a set that grows
# ~ sizes[axis]) if kind == "all" else range(at ==> at


# %% wrong: only the sleeper keeps others waiting => generality not-passed-on  from: a set that grows
# ~ in stuck for k ==> == rank for k


# %% wrong: the whole pipeline => values whole-pipeline  from: a box
# -         if kind == "all":
# -             low[axis] = 0
# +         low[axis] = 0

# %% wrong: the next stage alone => values neighbor-alone  from: a box
# ~ - 1 ==> - 1 if kind == "all" else min(high[axis] + 1, sizes[axis] - 1)

# %% wrong: the other way => values other-way unless direction=backward  from: a box
# ~ high[axis] = sizes[axis] - 1 ==> low[axis] = 0
# ~ low[axis] = 0 ==> high[axis] = sizes[axis] - 1

# %% wrong: without the sleeper => values without-itself  from: a box
# ~ return box ==> return [each for each in box if each != rank]

# %% wrong: everyone => values -  from: a box
# ~ return box ==> return list(range(math.prod(sizes.values())))

# %% wrong: the first axis changes fastest => values -  from: a box
#       low, high, rest = {}, {}, rank
# +     sizes = dict(reversed(sizes.items()))

# %% wrong: the highest rank first => values not-sorted  from: a set that grows
# ~ (stuck) ==> (stuck, reverse=True)

# %% wrong: four operations at most => generality -  from: a set that grows
# ~ for kind, axis in waits: ==> for kind, axis in waits[:4]:
