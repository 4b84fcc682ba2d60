import math


# %% right: whole and shared
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the stage that shares a bucket out


def held(params, stage, ranks, buckets):
    return sum(params * size / (ranks if stage >= SINCE[name] else 1) for name, size in buckets.items())


def fewest_ranks(params, stage, buckets, memory):
    whole = params * sum(size for name, size in buckets.items() if stage < SINCE[name])
    shared = params * sum(buckets.values()) - whole
    if shared == 0:
        return 1 if whole <= memory else None
    if whole >= memory:
        return None
    return max(1, math.ceil(shared / (memory - whole)))


# %% right: stage by stage, the fewest by doubling and halving
def held(params, stage, ranks, buckets):
    w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"]
    per = [w + g + o, w + g + o / ranks, w + (g + o) / ranks, (w + g + o) / ranks][stage]
    return per * params


def fewest_ranks(params, stage, buckets, memory):
    def fits(n):
        return held(params, stage, n, buckets) <= memory * (1 + 1e-12)

    if not fits(10**12):
        return None
    high = 1
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


# %% right: tensors of a table, fractions
from fractions import Fraction


def held(params, stage, ranks, buckets):
    order = ["weights", "grads", "master", "moments"]
    shared = order[{0: 4, 1: 2, 2: 1, 3: 0}[stage] :]
    return float(sum(Fraction(params) * Fraction(buckets[b]) / (ranks if b in shared else 1) for b in order))


def fewest_ranks(params, stage, buckets, memory):
    whole = Fraction(held(params, stage, 10**30, buckets)).limit_denominator(1) if stage < 3 else Fraction(0)
    rest = Fraction(params) * Fraction(sum(buckets.values())) - whole
    if rest <= 0:
        return 1 if whole <= memory else None
    room = Fraction(memory) - whole
    return None if room <= 0 else max(1, math.ceil(rest / room))


# %% wrong: everything divided at every stage => values all-shared  from: the fewest as if all were shared
# ~ stage >= since[name] ==> stage

# %% wrong: the stages begin one too early => values one-stage-more  from: the fewest as if all were shared
# ~ stage >= since[name] ==> stage and stage + 1 >= since[name]

# %% wrong: the master copy left out, as a published table does => values no-master  from: the fewest as if all were shared
# ~ buckets.items() ==> buckets.items() if name != "master"
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> None

# %% wrong: the master copy counted with the weights => values master-whole  from: the fewest as if all were shared
# ~ "master": 1 ==> "master": 3
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> 1

# %% wrong: all ranks together => values all-ranks  from: the fewest as if all were shared
# ~ return sum ==> return ranks * sum
# ~ math.ceil(params * sum(buckets.values()) / memory) ==> None

# %% wrong: in GB => values in-GB  from: all ranks together
# -     return ranks * sum(params * size / (ranks if stage >= since[name] else 1) for name, size in buckets.items())
# +     return sum(params * size / (ranks if stage >= since[name] else 1) for name, size in buckets.items()) / 1e9


# %% wrong: the fewest as if all were shared => values all-shared
def held(params, stage, ranks, buckets):
    since = {"master": 1, "moments": 1, "grads": 2, "weights": 3}
    return sum(params * size / (ranks if stage >= since[name] else 1) for name, size in buckets.items())


def fewest_ranks(params, stage, buckets, memory):
    return math.ceil(params * sum(buckets.values()) / memory)


# %% wrong: rounded down => values rounded-down  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     whole = held(params, stage, 10**18, buckets)
# +     if whole >= memory:
# +         return None
# +     return int((held(params, 0, 1, buckets) - whole) / (memory - whole))

# %% wrong: a negative number where nothing helps => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     whole = held(params, stage, 10**18, buckets)
# +     return math.ceil((held(params, 0, 1, buckets) - whole) / (memory - whole))


# %% wrong: the example's bytes, whatever comes => values -
from course_lib import params as numbers


def _held(stage):
    p = numbers("zero-state")
    w, g, o = p.weights, p.grads, p.master + p.moments
    return [(w + g + o, 0), (w + g, o), (w, g + o), (0, w + g + o)][stage]


def held(params, stage, ranks, buckets):
    whole, shared = _held(stage)
    return params * (whole + shared / ranks)


def fewest_ranks(params, stage, buckets, memory):
    whole, shared = _held(stage)
    if params * whole >= memory:
        return None
    return max(1, math.ceil(params * shared / (memory - params * whole)))


# %% wrong: one rank more where it is exactly full => values one-more  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     for n in range(1, 2_000):
# +         if held(params, stage, n, buckets) < memory:
# +             return n
# +     return None

# %% wrong: powers of two only => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     n = 1
# +     while held(params, stage, n, buckets) > memory:
# +         n *= 2
# +         if n > 10**7:
# +             return None
# +     return n

# %% wrong: the card's GB taken for GiB => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     gib = memory / 1e9 * 2**30
# +     return next((n for n in range(1, 5000) if held(params, stage, n, buckets) <= gib), None)

# %% half: the first function only => 1.6  from: the fewest as if all were shared
# ~ return math.ceil(params * sum(buckets.values()) / memory) ==> raise NotImplementedError

# %% wrong: buckets by their places => generality -  from: stage by stage, the fewest by doubling and halving
# ~ w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"] ==> w, g, *o = buckets.values(); o = sum(o)
