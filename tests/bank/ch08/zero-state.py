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


# %% right: stage by stage, the fewest by halving
from bisect import bisect_left


def held(params, stage, ranks, buckets):
    w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"]
    per = [w + g + o, w + g + o / ranks, w + (g + o) / ranks, (w + g + o) / ranks][stage]
    return per * params


def fewest_ranks(params, stage, buckets, memory):
    most, counts = memory * (1 + 1e-12), range(1, 10**12)
    place = bisect_left(counts, True, key=lambda n: held(params, stage, n, buckets) <= most)
    return counts[place] if place < len(counts) else None


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
# ~ ranks * sum ==> 1e-9 * sum


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


# %% wrong: the example's bytes, whatever comes => values -  from: whole and shared
# - def held(params, stage, ranks, buckets):
# + from course_lib import params as numbers
# + def held(params, stage, ranks, buckets):
# +     buckets = {name: getattr(numbers("zero-state"), name) for name in SINCE}
#   def fewest_ranks(params, stage, buckets, memory):
# +     buckets = {name: getattr(numbers("zero-state"), name) for name in SINCE}

# %% wrong: one rank more where it is exactly full => values one-more  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in range(1, 2000) if held(params, stage, n, buckets) < memory), None)

# %% wrong: powers of two only => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in (2**power for power in range(24)) if held(params, stage, n, buckets) <= memory), None)

# %% wrong: the card's GB taken for GiB => values -  from: the fewest as if all were shared
# -     return math.ceil(params * sum(buckets.values()) / memory)
# +     return next((n for n in range(1, 5000) if held(params, stage, n, buckets) <= memory * 2**30 / 1e9), None)

# %% half: the first function only => 1.6  from: the fewest as if all were shared
# ~ return math.ceil(params * sum(buckets.values()) / memory) ==> raise NotImplementedError

# %% wrong: buckets by their places => generality -  from: stage by stage, the fewest by halving
# ~ w, g, o = buckets["weights"], buckets["grads"], buckets["master"] + buckets["moments"] ==> w, g, *o = buckets.values(); o = sum(o)
