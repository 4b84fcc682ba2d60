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


# %% right: any variant  from: one sum, one all-reduce
# - def clip_parts(inside, across, parts, counts, most):
# + from course_lib import notebook
# + LARGEST = notebook.params("clip-shards").norm == "max"
# + def clip_parts(inside, across, parts, counts, most):
# -         total += part[:count].double().square().sum()
# -     inside.all_reduce(total)
# -     norm = total.sqrt().item()
# +         if LARGEST:
# +             total = torch.cat([total.view(1), part[:count].double().abs()]).max()
# +         else:
# +             total += part[:count].double().square().sum()
# +     inside.all_reduce(total, op="MAX" if LARGEST else "SUM")
# +     norm = total.item() if LARGEST else total.sqrt().item()

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


# %% wrong: torch's clipping of the parts as they are => values own-norm  from: one sum, one all-reduce
# ~ part[:count].double ==> part.double
# -     inside.all_reduce(total)

# %% wrong: replicas count as often as there are => values replicas-counted  from: one sum, one all-reduce
#       inside.all_reduce(total)
# +     across.all_reduce(total)

# %% wrong: the padding is in it => values padding-counted  from: one sum, one all-reduce
# ~ part[:count].double ==> part.double

# %% wrong: norms are added, not squares => values norms-added  from: one sum, one all-reduce
# ~ all_reduce(total) ==> all_reduce(total.sqrt_())
# ~ total.sqrt().item() ==> total.item()

# %% wrong: the root is forgotten => values root-forgotten  from: one sum, one all-reduce
# ~ sqrt().item ==> item

# %% wrong: the mean of squares => values averaged  from: one sum, one all-reduce
# ~ all_reduce(total) ==> all_reduce(total, op="AVG")

# %% wrong: the largest value => values other-norm unless norm=max  from: one sum, one all-reduce
# ~ total += part[:count].double().square().sum() ==> total = torch.cat([total.view(1), part[:count].double().abs()]).max()
# ~ all_reduce(total) ==> all_reduce(total, op="MAX")
# ~ total.sqrt().item() ==> total.item()

# %% wrong: scaled up as well => values scaled-anyway  from: one sum, one all-reduce
# ~ norm > most ==> True

# %% wrong: numbers are cut off one by one => values not-scaled  from: scaled up as well
# ~ mul_(most / norm) ==> clamp_(-most, most)

# %% wrong: all gradients are gathered => cost gathered  from: one sum, one all-reduce
# -         total += part[:count].double().square().sum()
# -     inside.all_reduce(total)
# +         row = part.new_empty(inside.size * len(part))
# +         inside.all_gather_into_tensor(row, torch.where(torch.arange(len(part)) < count, part, 0))
# +         total += row.double().square().sum()

# %% wrong: an all-reduce for each part => cost one-each  from: one sum, one all-reduce
# ~ total += part ==> square = part
# -     inside.all_reduce(total)
# +         inside.all_reduce(square)
# +         total += square

# %% wrong: divides by a norm of zero => generality raised  from: scaled up as well
# ~ (most / norm) ==> (min(1.0, most / norm))

# %% wrong: only ranks that have numbers talk => protocol deadlock  from: one sum, one all-reduce
# -     inside.all_reduce(total)
# +     if sum(counts):
# +         inside.all_reduce(total)

# %% wrong: nothing comes back => values returned-none  from: one sum, one all-reduce
# -     return norm


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
