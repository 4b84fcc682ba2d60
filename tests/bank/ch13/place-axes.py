import itertools
import math


# %% right: all orders
def best_order(sizes, sent, per_server, inside, across):
    def seconds(order):
        total, stride = 0.0, 1
        for axis in reversed(order):
            size = sizes[axis]
            if size > 1:
                firsts = [r for r in range(math.prod(sizes.values())) if r // stride % size == 0]
                crosses = any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts)
                total += sent[axis] / (across if crosses else inside)
            stride *= size
        return total

    return min(itertools.permutations(sizes), key=seconds)


# %% right: any variant  from: all orders
# - def best_order(sizes, sent, per_server, inside, across):
# + from course_lib import params
# + LEAST = params("place-axes").least
# + def best_order(sizes, sent, per_server, inside, across):
# -                 firsts = [r for r in range(math.prod(sizes.values())) if r // stride % size == 0]
# -                 crosses = any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts)
# -                 total += sent[axis] / (across if crosses else inside)
# +                 ranks, last = range(math.prod(sizes.values())), size - 1
# +                 pairs = [(r, r + stride if r // stride % size < last else r - last * stride) for r in ranks]
# +                 away = sum(a // per_server != b // per_server for a, b in pairs)
# +                 total += sent[axis] * (away if LEAST == "bytes" else 1 / (across if away else inside))


# %% right: the search from the inside out
def best_order(sizes, sent, per_server, inside, across):
    ranks = math.prod(sizes.values())
    best = [math.inf, ()]

    def grow(order, stride, total):
        if total >= best[0]:
            return
        if len(order) == len(sizes):
            best[:] = [total, order]
            return
        for axis in set(sizes) - set(order):
            n, cost = sizes[axis], 0.0
            if n > 1:
                block = n * stride
                units = [
                    {(b + o + k * stride) // per_server for k in range(n)}
                    for b in range(0, ranks, block)
                    for o in range(stride)
                ]
                cost = sent[axis] / (inside if all(len(u) == 1 for u in units) else across)
            grow((axis, *order), stride * n, total + cost)

    grow((), 1, 0.0)
    return best[1]


# %% wrong: the most innermost => values most-innermost  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> sorted(sizes, key=lambda axis: sent[axis])


# %% wrong: the most outermost => values outermost  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> sorted(sizes, key=lambda axis: -sent[axis])


# %% wrong: as it is given => values as-given  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> list(sizes)


# %% wrong: rank 0's group => generality -  from: all orders
# ~ r for r in range(math.prod(sizes.values())) if r // stride % size == 0 ==> 0

# %% wrong: the extent decides => generality -  from: all orders
# ~ any(r // per_server != (r + (size - 1) * stride) // per_server for r in firsts) ==> size * stride > per_server

# %% wrong: the worst order => values -  from: all orders
# ~ min ==> max

# %% wrong: axes of size one are left out => values not-an-order  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> [axis for axis in min(itertools.permutations(sizes), key=seconds) if sizes[axis] > 1]

# %% wrong: axes by number => values not-an-order  from: all orders
# ~ min(itertools.permutations(sizes), key=seconds) ==> [list(sizes).index(axis) for axis in min(itertools.permutations(sizes), key=seconds)]

# %% wrong: servers as they were for these sizes => generality ~  from: any variant
# - def best_order(sizes, sent, per_server, inside, across):
# + def best_order(sizes, sent, per_server, inside, across, kept={}):
# +     per_server = kept.setdefault(str((sizes, sent)), per_server)
