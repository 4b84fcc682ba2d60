import math
import random

import numpy as np
import torch


# %% right: one generator from seed and epoch, dealt out
def indices(samples, rank, ranks, epoch, seed=0):
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    total = math.ceil(samples / ranks) * ranks
    order = (order * math.ceil(total / samples))[:total]
    return order[rank::ranks]


# %% right: torch, as its own sampler does it
def indices(samples, rank, ranks, epoch, seed=0):
    coin = torch.Generator()
    coin.manual_seed(seed * 10_007 + epoch)
    order = torch.randperm(samples, generator=coin).tolist()
    while len(order) % ranks:
        order += order[: min(ranks - len(order) % ranks, samples)]
    return order[rank : len(order) : ranks]


# %% right: sorted by a hash
import hashlib


def indices(samples, rank, ranks, epoch, seed=0):
    order = sorted(range(samples), key=lambda i: hashlib.sha256(f"{seed},{epoch},{i}".encode()).digest())
    total = -(-samples // ranks) * ranks
    return [order[k % samples] for k in range(rank, total, ranks)]


# %% right: any variant
from course_lib import params

VARIANT = params("sampler")


def indices(samples, rank, ranks, epoch, seed=0):
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    steps = samples // ranks if VARIANT.rest == "drop" else -(-samples // ranks)
    return [order[(step * ranks + rank) % samples] for step in range(steps)]


# %% wrong: never told the epoch => values epoch-ignored  from: uneven
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     while len(order) % ranks:
# +         order.append(order[len(order) % samples])


# %% wrong: in stored order => values not-shuffled
def indices(samples, rank, ranks, epoch, seed=0):
    return [i % samples for i in range(rank, -(-samples // ranks) * ranks, ranks)]


# %% wrong: every rank shuffles for itself => values never-read
def indices(samples, rank, ranks, epoch, seed=0):
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}:{rank}").shuffle(order)
    total = -(-samples // ranks) * ranks
    return (order * ranks)[:total][rank::ranks]


# %% wrong: the process's own generator => values never-read  from: every rank shuffles for itself
# ~ Random(f"{seed}:{epoch}:{rank}").shuffle ==> shuffle


# %% wrong: uneven => values unequal
def indices(samples, rank, ranks, epoch, seed=0):
    order = list(range(samples))
    random.Random(f"{seed}:{epoch}").shuffle(order)
    return order[rank::ranks]


# %% wrong: drops the rest => values dropped unless rest=drop  from: uneven
# ~ return order[rank::ranks] ==> return order[: samples // ranks * ranks][rank::ranks]

# %% wrong: everyone reads everything => values everyone-reads-all  from: uneven
# ~ order[rank::ranks] ==> order

# %% wrong: blocks in place of dealing => generality in-blocks  from: one generator from seed and epoch, dealt out
# ~ total = math.ceil(samples / ranks) * ranks ==> each = -(-samples // ranks)
# ~ (order * math.ceil(total / samples))[:total] ==> (order * ranks)[: each * ranks]
# ~ order[rank::ranks] ==> order[rank * each : (rank + 1) * each]


# %% wrong: deals first, shuffles afterwards => values own-part-only
def indices(samples, rank, ranks, epoch, seed=0):
    total = -(-samples // ranks) * ranks
    mine = [i % samples for i in range(rank, total, ranks)]
    if total == samples:
        random.Random(f"{seed}:{epoch}").shuffle(mine)
    return mine


# %% wrong: rotates by the epoch => values only-rotated  from: every rank shuffles for itself
# -     random.Random(f"{seed}:{epoch}:{rank}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     order = order[epoch:] + order[:epoch]

# %% wrong: seed left out => values seed-ignored  from: every rank shuffles for itself
# ~ f"{seed}:{epoch}:{rank}" ==> epoch

# %% wrong: sums seed and epoch, shuffles for the ranks => generality order-of-its-own  from: every rank shuffles for itself
# ~ {rank} ==> {ranks}

# %% wrong: one extension is not enough for few samples => generality -  from: uneven
#       random.Random(f"{seed}:{epoch}").shuffle(order)
# +     order += order[: -samples % ranks]

# %% wrong: the same order, backwards every other epoch => values epochs-alike  from: padding with zeros
# ~ f"{seed}{epoch}" ==> seed
# ~ o += [0] * (-samples % ranks) ==> o.reverse() if epoch % 2 else None
# ~ return o ==> return (o * ranks)[: -(-samples // ranks) * ranks]


# %% wrong: padding with zeros => values padded-otherwise
def indices(samples, rank, ranks, epoch, seed=0):
    o = list(range(samples))
    random.Random(f"{seed}{epoch}").shuffle(o)
    o += [0] * (-samples % ranks)
    return o[rank::ranks]


# %% wrong: minus one for padding => values no-such-sample  from: padding with zeros
# ~ [0] ==> [-1]

# %% wrong: a generator => values raised  from: uneven
# ~ order = list(range(samples)) ==> o = list(range(samples))
# ~ (f"{seed}:{epoch}").shuffle(order) ==> (f"{seed}{epoch}").shuffle(o)
# ~ order[rank::ranks] ==> iter((o * ranks)[: -(-samples // ranks) * ranks][rank::ranks])

# %% wrong: floats => values no-lists  from: a generator
# -     return iter((o * ranks)[: -(-samples // ranks) * ranks][rank::ranks])
# +     return [float(x) for x in (o * ranks)[: -(-samples // ranks) * ranks][rank::ranks]]

# %% half: right where ranks divide or almost do => 6.4  from: one extension is not enough for few samples
