import torch


# %% right: a flag, and then squares
def agreed_step(comm, weights, gradients, scale, rate, most):
    flag = (~gradients.isfinite()).sum()
    comm.all_reduce(flag)
    if flag:
        return weights, False
    g = gradients.float() / scale
    total = g.square().sum()
    comm.all_reduce(total)
    norm = total.sqrt().item()
    if norm > most:
        g = g * (most / norm)
    return weights - rate * g, True


# %% right: one number is enough
def agreed_step(comm, weights, gradients, scale, rate, most):
    g = gradients.double() / scale
    total = g.square().sum()
    comm.all_reduce(total)
    if not total.isfinite():
        return weights.clone(), False
    factor = (most / total.sqrt().clamp(min=1e-300)).clamp(max=1.0)
    return (weights - rate * factor * g).float(), True


# %% right: both numbers in one tensor
def agreed_step(comm, weights, gradients, scale, rate, most):
    g = gradients.float().div(scale)
    both = torch.stack([(~g.isfinite()).any().float(), g.nan_to_num(0.0, 0.0, 0.0).square().sum()])
    comm.all_reduce(both)
    if both[0] > 0:
        return weights, False
    norm = both[1].sqrt()
    return weights - rate * g * (most / norm if norm > most else 1.0), True


# %% wrong: it skips alone => values local-skip  from: a flag, and then squares
# -     comm.all_reduce(flag)
# -     if flag:
# -         return weights, False
# -     g = gradients.float() / scale
# +     g = gradients.float().nan_to_num(0.0, 0.0, 0.0) / scale
# ~ norm > most ==> flag
# ~ g = g * (most / norm) ==> return weights, False
# ~ * g, True ==> * g * (most / norm if norm > most else 1.0), True

# %% wrong: it returns before the others reduce => values deadlock  from: a flag, and then squares
# -     comm.all_reduce(flag)

# %% wrong: it clips scaled gradients => values clipped-scaled  from: a flag, and then squares
# ~ () / scale ==> ()
# ~ * g, True ==> * g / scale, True

# %% wrong: each rank clips alone => values own-norm  from: a flag, and then squares
# -     comm.all_reduce(total)

# %% wrong: it never clips => values not-clipped  from: a flag, and then squares
# -     if norm > most:
# -         g = g * (most / norm)

# %% wrong: NaN is no infinity => values missed  from: a flag, and then squares
# ~ (~gradients.isfinite()) ==> gradients.isinf()

# %% wrong: it unscales in fp16 => values in-half  from: a flag, and then squares
# ~ gradients.float() / scale ==> (gradients / scale).float()


# %% wrong: gradients are gathered => cost gathered
def agreed_step(comm, weights, gradients, scale, rate, most):
    g = gradients.float() / scale
    inbox = [torch.empty(g.numel() if comm.size == 1 else 0) for _ in range(comm.size)]
    sizes = torch.zeros(comm.size)
    sizes[comm.rank] = g.numel()
    comm.all_reduce(sizes)
    inbox = torch.zeros(int(sizes.sum()))
    start = int(sizes[: comm.rank].sum())
    inbox[start : start + g.numel()] = g
    comm.all_reduce(inbox)
    if not inbox.isfinite().all():
        return weights, False
    norm = inbox.norm()
    return weights - rate * g * (most / norm if norm > most else 1.0), True


# %% wrong: a norm of zero divides => generality not-finite  from: a flag, and then squares
# -     if norm > most:
# -         g = g * (most / norm)
# +     g = g / total.sqrt().float() * min(norm, most)

# %% wrong: the weights change anyway => values changed-anyway  from: a flag, and then squares
# ~ return weights, False ==> return weights - rate * (gradients.float() / scale).nan_to_num(0.0, 0.0, 0.0), False

# %% wrong: an empty part has no maximum => generality -  from: a flag, and then squares
# ~ gradients.isfinite() ==> gradients.abs().max().isfinite()

# %% wrong: the squares are added in fp16 => values false-alarm  from: a flag, and then squares
# ~ (~gradients.isfinite()).sum() ==> gradients.float().square().sum().half().float()
# ~ if flag: ==> if not flag.isfinite():

# %% wrong: norms are added => values sum-of-norms  from: a flag, and then squares
# ~ square().sum ==> norm
# ~ sqrt().item ==> item

# %% wrong: -infinity is finite => values ~  from: a flag, and then squares
# ~ gradients.isfinite() ==> (gradients < float("inf"))

# %% wrong: the first eight ranks are asked => generality ~  from: a flag, and then squares
# ~ (~gradients.isfinite()).sum() ==> (~gradients.isfinite()).sum() * (comm.rank < 8)

# %% wrong: a norm just below the limit is scaled to it => values ~  from: a flag, and then squares
# ~ if norm > most: ==> if norm > 0.99 * most:

# %% half: it skips alone => 3  from: it skips alone
