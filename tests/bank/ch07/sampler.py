import math
import random

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


# %% right: any variant  from: one generator from seed and epoch, dealt out
# - def indices(samples, rank, ranks, epoch, seed=0):
# + from course_lib import params
# + WHOLE = {"pad": math.ceil, "drop": math.floor}[params("sampler").rest]
# + def indices(samples, rank, ranks, epoch, seed=0):
# ~ total = math.ceil(samples / ranks) ==> total = WHOLE(samples / ranks)

# %% wrong: never told the epoch => values epoch-ignored  from: one generator from seed and epoch, dealt out
# ~ f"{seed}:{epoch}" ==> seed

# %% wrong: in stored order => values not-shuffled  from: one generator from seed and epoch, dealt out
# -     random.Random(f"{seed}:{epoch}").shuffle(order)

# %% wrong: every rank shuffles for itself => values never-read  from: one generator from seed and epoch, dealt out
# ~ f"{seed}:{epoch}" ==> f"{seed}:{epoch}:{rank}"

# %% wrong: the process's own generator => values never-read  from: one generator from seed and epoch, dealt out
# ~ random.Random(f"{seed}:{epoch}").shuffle(order) ==> random.shuffle(order)

# %% wrong: uneven => values unequal  from: one generator from seed and epoch, dealt out
# -     total = math.ceil(samples / ranks) * ranks
# -     order = (order * math.ceil(total / samples))[:total]

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


# %% wrong: rotates by the epoch => values only-rotated  from: one generator from seed and epoch, dealt out
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     order = order[epoch:] + order[:epoch]

# %% wrong: seed left out => values seed-ignored  from: one generator from seed and epoch, dealt out
# ~ f"{seed}:{epoch}" ==> epoch

# %% wrong: one extension is not enough for few samples => generality -  from: one generator from seed and epoch, dealt out
# ~ order = (order * math.ceil(total / samples))[:total] ==> order += order[: -samples % ranks]

# %% wrong: the same order, backwards every other epoch => values epochs-alike  from: one generator from seed and epoch, dealt out
# -     random.Random(f"{seed}:{epoch}").shuffle(order)
# +     random.Random(seed).shuffle(order)
# +     order = order[::-1] if epoch % 2 else order

# %% wrong: padding with zeros => values padded-otherwise  from: one generator from seed and epoch, dealt out
# ~ order = (order * math.ceil(total / samples))[:total] ==> order += [0] * (total - samples)

# %% wrong: minus one for padding => values no-such-sample  from: one generator from seed and epoch, dealt out
# ~ order = (order * math.ceil(total / samples))[:total] ==> order += [-1] * (total - samples)

# %% wrong: a generator => values raised  from: one generator from seed and epoch, dealt out
# ~ return order[rank::ranks] ==> return iter(order[rank::ranks])

# %% wrong: floats => values no-lists  from: one generator from seed and epoch, dealt out
# ~ return order[rank::ranks] ==> return [float(x) for x in order[rank::ranks]]

# %% half: right where ranks divide or almost do => 6.4  from: one extension is not enough for few samples

# %% wrong: shuffled in windows => generality not-shuffled  from: one generator from seed and epoch, dealt out
# ~ random.Random(f"{seed}:{epoch}").shuffle(order) ==> order.sort(key=lambda i: i // 16 + random.Random(f"{seed}:{epoch}:{i}").random())

# %% wrong: another order where ranks do not divide => generality order-of-its-own  from: one generator from seed and epoch, dealt out
# ~ f"{seed}:{epoch}" ==> f"{seed}:{epoch}:{samples % ranks}"
