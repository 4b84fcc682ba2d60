import math


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
