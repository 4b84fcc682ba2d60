import math

import torch


# %% right: one sum, one all-reduce
def clip_parts(inside, across, parts, counts, most):
    total = torch.zeros((), dtype=torch.float64)
    for part, count in zip(parts, counts):
        total += part[:count].double().square().sum()
    inside.all_reduce(total)
    norm = total.sqrt().item()
    if norm > most:
        for part in parts:
            part.mul_(most / norm)
    return norm


# %% right: torch's norm of norms, and torch's rule with its small number
def clip_parts(inside, across, parts, counts, most):
    local = torch.stack([torch.linalg.vector_norm(p[:c], dtype=torch.float64) for p, c in zip(parts, counts)])
    total = torch.linalg.vector_norm(local) ** 2
    inside.all_reduce(total)
    total = total**0.5
    scale = torch.clamp(most / (total + 1e-6), max=1.0).float()
    for p in parts:
        p.mul_(scale)
    return float(total)


# %% right: any variant
from course_lib import notebook

VARIANT = notebook.params("clip-shards")


def clip_parts(inside, across, parts, counts, most):
    numbers = torch.cat(
        [torch.zeros(1, dtype=torch.float64), *(part[:count].double() for part, count in zip(parts, counts))]
    )
    if VARIANT.norm == "max":
        total = numbers.abs().max()
        inside.all_reduce(total, op="MAX")
        norm = total.item()
    else:
        total = numbers.square().sum()
        inside.all_reduce(total)
        norm = math.sqrt(total.item())
    if norm > most:
        for part in parts:
            part.mul_(most / norm)
    return norm


# %% right: numbers passed round the ranks  from: one sum, one all-reduce
# -     inside.all_reduce(total)
# +     going, ranks = total.clone(), inside.size
# +     for _ in range(ranks - 1):
# +         came = torch.empty_like(going)
# +         works = inside.isend(going, (inside.rank + 1) % ranks), inside.irecv(came, (inside.rank - 1) % ranks)
# +         for work in works:
# +             work.wait()
# +         going = came
# +         total += came


# %% wrong: torch's clipping of the parts as they are => values own-norm
def clip_parts(inside, across, parts, counts, most):
    norm = torch.cat(parts).double().norm().item()
    if norm > most:
        for part in parts:
            part.mul_(most / norm)
    return norm


# %% wrong: replicas count as often as there are => values replicas-counted  from: one sum, one all-reduce
#       inside.all_reduce(total)
# +     across.all_reduce(total)

# %% wrong: the padding is in it => values padding-counted  from: one sum, one all-reduce
# ~ part[:count].double ==> part.double

# %% wrong: norms are added, not squares => values norms-added  from: torch's clipping of the parts as they are
# -     norm = torch.cat(parts).double().norm().item()
# +     norm = torch.cat([part[:count] for part, count in zip(parts, counts)]).double().norm()
# +     inside.all_reduce(norm)
# +     norm = norm.item()

# %% wrong: the root is forgotten => values root-forgotten  from: one sum, one all-reduce
# ~ sqrt().item ==> item

# %% wrong: the mean of squares => values averaged  from: one sum, one all-reduce
# ~ all_reduce(total) ==> all_reduce(total, op="AVG")

# %% wrong: the largest value => values other-norm unless norm=max  from: torch's clipping of the parts as they are
# -     norm = torch.cat(parts).double().norm().item()
# +     top = torch.zeros((), dtype=torch.float64)
# +     for part, count in zip(parts, counts):
# +         if count:
# +             top = torch.maximum(top, part[:count].double().abs().max())
# +     inside.all_reduce(top, op="MAX")
# +     norm = top.item()

# %% wrong: scaled up as well => values scaled-anyway  from: one sum, one all-reduce
# -     if norm > most:
# -         for part in parts:
# -             part.mul_(most / norm)
# +     for part in parts:
# +         part.mul_(most / norm)

# %% wrong: numbers are cut off one by one => values not-scaled  from: scaled up as well
# ~ mul_(most / norm) ==> clamp_(-most, most)

# %% wrong: all gradients are gathered => cost gathered  from: torch's clipping of the parts as they are
# -     norm = torch.cat(parts).double().norm().item()
# +     total = 0.0
# +     for part, count in zip(parts, counts):
# +         masked = part.clone()
# +         masked[count:] = 0
# +         row = part.new_empty(inside.size * len(part))
# +         inside.all_gather_into_tensor(row, masked)
# +         total += row.double().square().sum().item()
# +     norm = math.sqrt(total)

# %% wrong: an all-reduce for each part => cost one-each  from: torch's clipping of the parts as they are
# -     norm = torch.cat(parts).double().norm().item()
# +     total = 0.0
# +     for part, count in zip(parts, counts):
# +         square = part[:count].double().square().sum()
# +         inside.all_reduce(square)
# +         total += square.item()
# +     norm = math.sqrt(total)

# %% wrong: divides by a norm of zero => generality raised  from: scaled up as well
#       norm = total.sqrt().item()
# +     factor = min(1.0, most / norm)
# ~ most / norm ==> factor

# %% wrong: only ranks that have numbers talk => protocol deadlock  from: one sum, one all-reduce
# -     inside.all_reduce(total)
# +     if sum(counts):
# +         inside.all_reduce(total)

# %% wrong: nothing comes back => values returned-none  from: one sum, one all-reduce
# -     return norm

# %% wrong: padding multiplied by zero => generality not-finite  from: one sum, one all-reduce
# ~ part[:count].double() ==> (part.double() * (torch.arange(len(part)) < count))


# %% wrong: one tensor after the other => values per-tensor
def clip_parts(inside, across, parts, counts, most):
    worst = 0.0
    for p, c in zip(parts, counts):
        s = (p[:c].double() ** 2).sum().reshape(1)
        inside.all_reduce(s)
        norm = s.sqrt().item()
        worst = max(worst, norm)
        if norm > most:
            p.mul_(most / norm)
    return worst


# %% wrong: times the limit, then divided => generality not-finite  from: one sum, one all-reduce
# ~ (most / norm) ==> (most).div_(norm)

# %% wrong: padding is cut off without replicas only => generality not-finite  from: one sum, one all-reduce
# ~ part[:count].double() ==> (part[:count] if across.size == 1 else part * (torch.arange(len(part)) < count)).double()
