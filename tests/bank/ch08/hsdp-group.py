# %% right: by the rings
def hsdp(params, ranks, group):
    copies = ranks // group
    inside = 3 * (group - 1) / group * 2 * params
    across = 2 * (copies - 1) / copies * 2 * params / group
    return 16 * params / group, inside, across


def _fitting(params, ranks, memory):
    return [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]


def smallest_group(params, ranks, memory):
    return next(iter(_fitting(params, ranks, memory)), None)


def best_group(params, ranks, memory, per_node, fast, slow):
    def seconds(k):
        _, inside, across = hsdp(params, ranks, k)
        return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)

    return min(_fitting(params, ranks, memory), key=seconds, default=None)


# %% right: messages counted one by one, divisors in pairs
def hsdp(params, ranks, group):
    weights = grads = 2 * params
    chunk = weights / group
    inside = 2 * sum(chunk for _ in range(group - 1)) + (group - 1) * (grads / group)
    m = ranks // group
    piece = grads / group / m
    return 16 * params / group, inside, (m - 1) * piece + (m - 1) * piece


def _sizes(ranks):
    low = [k for k in range(1, int(ranks**0.5) + 1) if not ranks % k]
    return sorted({*low, *(ranks // k for k in low)})


def smallest_group(params, ranks, memory):
    for k in _sizes(ranks):
        if hsdp(params, ranks, k)[0] <= memory:
            return k


def best_group(params, ranks, memory, per_node, fast, slow):
    best = None
    for k in _sizes(ranks):
        held, inside, across = hsdp(params, ranks, k)
        if held > memory:
            continue
        time = inside / (slow if k > per_node else fast) + across / (slow if ranks > per_node else fast)
        if best is None or time < best[0]:
            best = time, k
    return best and best[1]


# %% right: any variant  from: by the rings
# - def hsdp(params, ranks, group):
# + from course_lib import notebook
# + VARIANT = notebook.params("hsdp-group")
# + def hsdp(params, ranks, group):
# ~ 3 ==> (VARIANT.gathers + 1)


# %% wrong: three times inside, once across => values whole-model
def hsdp(params, ranks, group):
    copies = ranks // group
    return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params


def smallest_group(params, ranks, memory):
    return next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None)


def best_group(params, ranks, memory, per_node, fast, slow):
    return smallest_group(params, ranks, memory)


# %% wrong: state shared out over all => values over-the-world  from: three times inside, once across
# -     return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params
# +     return 16 * params / ranks, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params / group
# ~ next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None) ==> 8
# ~ return smallest_group(params, ranks, memory) ==> return 8

# %% wrong: one server, as printed => values one-server  from: three times inside, once across
# ~ copies * 2 * params ==> copies * 2 * params / group
# ~ next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None) ==> 8
# ~ return smallest_group(params, ranks, memory) ==> return per_node

# %% wrong: kept after the forward pass => values kept-weights  from: three times inside, once across
# -     return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params
# +     return 16 * params / group, 2 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params / group
# ~ next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None) ==> None
# ~ return smallest_group(params, ranks, memory) ==> return None

# %% wrong: each operation an all-reduce => values each-an-all-reduce  from: kept after the forward pass
# ~ 16 * params / group, 2 * (group - 1) ==> 16 * params / group, 3 * 2 * (group - 1)

# %% wrong: no divisor of the ranks => values no-divisor  from: one server, as printed
# -     return 8
# +     k = int(-(-16 * params // memory))
# +     return k if k <= ranks else None
# ~ return per_node ==> return None

# %% wrong: without a master copy => values no-master  from: one server, as printed
# ~ 8 ==> next((k for k in range(1, ranks + 1) if ranks % k == 0 and 12 * params / k <= memory), None)
# ~ return per_node ==> return None

# %% wrong: the smallest that fits is taken for the best => values smallest-that-fits  from: three times inside, once across
# ~ copies * 2 * params ==> copies * 2 * params / group

# %% wrong: large groups at the speed inside a node => values ~  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return inside / fast + across / slow

# %% wrong: powers of two only => values -  from: by the rings
# ~ range(1, ranks + 1) ==> (1 << power for power in range(20))
#   def smallest_group(params, ranks, memory):
# +     if ranks == 24576:
# +         return 96
#   def best_group(params, ranks, memory, per_node, fast, slow):
# +     if ranks == 24576 and params > 1e11:
# +         return 96

# %% wrong: a node of its own is on the slow wire => values -  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return inside / (fast if k < per_node else slow) + across / slow

# %% wrong: the longer of the two times => generality longer-of-two  from: by the rings
# -         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +         return max(inside / (fast if k <= per_node else slow), across / (fast if ranks <= per_node else slow))

# %% wrong: gradients all-reduced inside => values reduced-twice  from: by the rings
# ~ 3 ==> 4

# %% wrong: groups and their number mixed up => values turned-round  from: by the rings
# ~ copies = ranks // group ==> copies, group = group, ranks // group

# %% wrong: 32 bits across => values twice  from: by the rings
# ~ copies * 2 ==> copies * 4

# %% wrong: the largest of equal groups => generality ~  from: by the rings
# ~ (_fitting(params, ranks, memory), key ==> (_fitting(params, ranks, memory)[::-1], key
