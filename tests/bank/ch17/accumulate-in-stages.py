import torch


# %% right: the loss is scaled
def step_gradient(comm, w, batches, parts):
    w = w.detach().clone().requires_grad_()
    for x, y in batches:
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
            (((xs @ w - ys) ** 2).sum() / len(y)).backward()
    comm.all_reduce(w.grad)
    return w.grad / len(batches) / comm.size


# %% right: any variant  from: the loss is scaled
# - def step_gradient(comm, w, batches, parts):
# + from course_lib import params
# + ROWS = params("accumulate-in-stages").weights == "rows"
# + def step_gradient(comm, w, batches, parts):
# ~ len(y)).backward() ==> (1 if ROWS else len(y))).backward()
# -     return w.grad / len(batches) / comm.size
# +     if not ROWS:
# +         return w.grad / len(batches) / comm.size
# +     count = torch.tensor(sum(len(y) for _, y in batches))
# +     comm.all_reduce(count)
# +     return w.grad / count


# %% wrong: as it was => values -  from: the card


# %% wrong: reduced once, scaled again => values scaled-again  from: the loss is scaled
# -             (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +             ((xs @ w - ys) ** 2).mean().backward()
# +         w.grad /= parts

# %% wrong: scaled once, reduced again => values reduced-again  from: the loss is scaled
# -     comm.all_reduce(w.grad)
# +         comm.all_reduce(w.grad)


# %% wrong: every row counts the same => values rows-equal unless weights=rows  from: the loss is scaled
# ~ .sum() / len(y)) ==> .sum())
# -     return w.grad / len(batches) / comm.size
# +     count = torch.tensor(sum(len(y) for _, y in batches))
# +     comm.all_reduce(count)
# +     return w.grad / count


# %% wrong: each rank its own => values own-rank  from: the loss is scaled
# -     comm.all_reduce(w.grad)
# -     return w.grad / len(batches) / comm.size
# +     return w.grad / len(batches)

# %% wrong: the sum of the ranks => values not-over-ranks  from: the loss is scaled
# ~ (batches) / comm.size ==> (batches)

# %% wrong: the sum of the batches => values not-over-batches  from: the loss is scaled
# ~ len(batches) / comm ==> comm

# %% wrong: cleared for each batch => values last-batch  from: the loss is scaled
#       for x, y in batches:
# +         w.grad = None

# %% wrong: scaled at the end => values scaled-at-the-end  from: the loss is scaled
# ~ (((xs @ w - ys) ** 2).sum() / len(y)).backward ==> ((xs @ w - ys) ** 2).mean().backward
# ~ size ==> size / parts ** len(batches)


# %% wrong: one message a batch => cost too-many-bytes
def step_gradient(comm, w, batches, parts):
    total = torch.zeros_like(w)
    for x, y in batches:
        mean = 2 * x.T @ (x @ w - y) / len(y)
        comm.all_reduce(mean)
        total += mean
    return total / len(batches) / comm.size


# %% wrong: the gradient stays on w => values changed  from: the loss is scaled
# ~ w = w.detach().clone().requires_grad_ ==> w.requires_grad_

# %% wrong: the buffer is kept => values second-call  from: the loss is scaled
#   def step_gradient(comm, w, batches, parts):
# +     kept = step_gradient.__dict__.setdefault("grad", {})
#       w = w.detach().clone().requires_grad_()
# +     w.grad = kept.get(comm.rank)
#               (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +     kept[comm.rank] = w.grad.clone()

# %% wrong: the first gradient is remembered => values second-call  from: the loss is scaled
#               (((xs @ w - ys) ** 2).sum() / len(y)).backward()
# +     kept = step_gradient.__dict__
# ~ w.grad / len(batches) / comm.size ==> kept.setdefault(comm.rank, w.grad / len(batches) / comm.size)

# %% wrong: one tensor for the results of all calls => values changed-results  from: the loss is scaled
# - def step_gradient(comm, w, batches, parts):
# + KEPT = {}
# + def step_gradient(comm, w, batches, parts):
# -     return w.grad / len(batches) / comm.size
# +     kept = KEPT.setdefault((comm.rank, w.shape), w.detach())
# +     return torch.div(w.grad, len(batches) * comm.size, out=kept)
