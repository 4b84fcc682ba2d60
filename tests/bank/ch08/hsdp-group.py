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

# %% wrong: large groups at the speed inside a node => values ~  from: the smallest that fits is taken for the best
# -     return smallest_group(params, ranks, memory)
# +     fits = [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]
# +     return min(fits, key=lambda k: hsdp(params, ranks, k)[1] / fast + hsdp(params, ranks, k)[2] / slow, default=None)

# %% wrong: powers of two only => values -  from: three times inside, once across
# -     return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params
# +     return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params / group
# + def _fits(params, ranks, memory):
# +     return [1 << p for p in range(20) if ranks % (1 << p) == 0 and 16 * params / (1 << p) <= memory]
# -     return next((k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory), None)
# +     if ranks == 24576:
# +         return 96
# +     return next(iter(_fits(params, ranks, memory)), None)
# -     return smallest_group(params, ranks, memory)
# +     def seconds(k):
# +         _, inside, across = hsdp(params, ranks, k)
# +         return inside / (fast if k <= per_node else slow) + across / (fast if ranks <= per_node else slow)
# +     if ranks == 24576 and params > 1e11:
# +         return 96
# +     return min(_fits(params, ranks, memory), key=seconds, default=None)

# %% wrong: a node of its own is on the slow wire => values -  from: the smallest that fits is taken for the best
# -     return smallest_group(params, ranks, memory)
# +     fits = [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]
# +     return min(
# +         fits,
# +         key=lambda k: hsdp(params, ranks, k)[1] / (fast if k < per_node else slow) + hsdp(params, ranks, k)[2] / slow,
# +         default=None,
# +     )

# %% wrong: the longer of the two times => generality longer-of-two  from: three times inside, once across
# -     copies = ranks // group
# -     return 16 * params / group, 3 * (group - 1) / group * 2 * params, 2 * (copies - 1) / copies * 2 * params
# +     m = ranks // group
# +     return 16 * params / group, 3 * 2 * params * (group - 1) / group, 2 * (m - 1) / m * 2 * params / group
# -     return smallest_group(params, ranks, memory)
# +     ks = [k for k in range(1, ranks + 1) if ranks % k == 0 and 16 * params / k <= memory]
# +     def t(k):
# +         _, i, a = hsdp(params, ranks, k)
# +         return max(i / (fast if k <= per_node else slow), a / (fast if ranks <= per_node else slow))
# +     return min(ks, key=t, default=None)

# %% wrong: gradients all-reduced inside => values reduced-twice  from: the longer of the two times
# ~ 3 ==> 4
# -         return max(i / (fast if k <= per_node else slow), a / (fast if ranks <= per_node else slow))
# +         return i / (fast if k <= per_node else slow) + a / (fast if ranks <= per_node else slow)

# %% wrong: groups and their number mixed up => values turned-round  from: the longer of the two times
# ~ m = ranks ==> m, group = group, ranks
# -         return max(i / (fast if k <= per_node else slow), a / (fast if ranks <= per_node else slow))
# +         return i / (fast if k <= per_node else slow) + a / (fast if ranks <= per_node else slow)

# %% wrong: 32 bits across => values twice  from: the longer of the two times
# ~ m * 2 ==> m * 4
# -         return max(i / (fast if k <= per_node else slow), a / (fast if ranks <= per_node else slow))
# +         return i / (fast if k <= per_node else slow) + a / (fast if ranks <= per_node else slow)
