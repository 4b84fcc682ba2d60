import math

import torch


# %% right: a sum of squares
def clip(shards, limit, replicated):
    total, seen = 0.0, set()
    for shard in shards:
        for name, gradient in shard.items():
            if name in seen:
                continue
            seen |= {name} & replicated
            total += gradient.double().square().sum().item()
    norm = math.sqrt(total)
    if limit < norm < math.inf:
        for shard in shards:
            for gradient in shard.values():
                gradient.mul_(limit / norm)
    return norm


# %% right: one rank's share at a time, with tensors
def share_of(shard, rank, replicated):
    own = [g for name, g in shard.items() if name not in replicated or rank == 0]
    return sum((g.float().norm() ** 2 for g in own), torch.zeros(()))


def clip(shards, limit, replicated):
    norm = torch.stack([share_of(shard, rank, replicated) for rank, shard in enumerate(shards)]).sum().sqrt()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for shard in shards:
        for name in list(shard):
            if torch.isfinite(norm):
                shard[name] = (shard[name] * factor).to(shard[name].dtype)
    return norm


# %% wrong: every rank clips its own shard => values per-rank  from: a sum of squares
#   def clip(shards, limit, replicated):
# +     return math.hypot(*(clip_all([shard], limit, replicated) for shard in shards))
# + def clip_all(shards, limit, replicated):

# %% wrong: every tensor by itself => values per-tensor  from: a sum of squares
# ~ if name in seen: ==> if False:
# -             total += gradient.double().square().sum().item()
# +             norm = gradient.norm().item()
# +             total += norm**2
# +             gradient.mul_(min(1.0, limit / norm) if norm else 1.0)
# ~ limit < norm ==> math.inf < norm

# %% wrong: norms are added up => values norms-added  from: a sum of squares
# ~ square().sum ==> norm
# ~ math.sqrt(total) ==> total

# %% wrong: no root => values not-rooted  from: a sum of squares
# ~ math.sqrt(total) ==> total

# %% wrong: copies count on every rank => generality copies-counted  from: a sum of squares
# -             seen |= {name} & replicated

# %% wrong: every name counts once => values -  from: a sum of squares
# ~ seen |= {name} & replicated ==> seen.add(name)

# %% wrong: copies do not count => generality copies-left-out  from: a sum of squares
# ~ if name in seen: ==> if name in replicated:

# %% wrong: one copy is scaled => generality one-copy  from: a sum of squares
# -             for gradient in shard.values():
# -                 gradient.mul_(limit / norm)
# +             for name, gradient in shard.items():
# +                 if shard is shards[0] or name not in replicated:
# +                     gradient.mul_(limit / norm)

# %% wrong: small gradients are scaled up => values scaled-up  from: a sum of squares
# ~ limit < norm ==> 0 < norm

# %% wrong: zero over zero => generality raised  from: a sum of squares
# ~ limit < norm ==> 1 < norm / norm * norm / limit

# %% wrong: a factor of NaN => generality scaled-by-nan  from: one rank's share at a time, with tensors
# -             if torch.isfinite(norm):
# -                 shard[name] = (shard[name] * factor).to(shard[name].dtype)
# +             shard[name] = (shard[name] * factor).to(shard[name].dtype)

# %% wrong: the norm after clipping => values norm-after  from: a sum of squares
# ~ return norm ==> return min(norm, limit)

# %% wrong: squares of 16 bits => generality summed-in-16-bits  from: a sum of squares
# ~ .double().square().sum().item() ==> .square().sum()

# %% wrong: hides what is infinite => generality hides-infinity  from: a sum of squares
# ~ return norm ==> return norm if math.isfinite(norm) else 0.0


# %% wrong: left as it is => not-answered  from: a sum of squares
# ~ total, seen = 0.0, set() ==> raise NotImplementedError

# %% wrong: only copies by one name count once => generality ~  from: a sum of squares
# ~ {name} & replicated ==> {name} & {"norm"}

# %% wrong: squares of fp32 in the gradient itself => values other-numbers  from: a sum of squares
# ~ double().square() ==> float().square_()

# %% wrong: each replicated name is crossed off => values changed-arguments  from: a sum of squares
# ~ {name} & replicated ==> {name} & replicated; replicated.discard(name)
