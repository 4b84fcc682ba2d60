import torch


# %% right: zeros, a sum, all ranks
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            group.all_reduce(p.grad)
            p.grad /= comm.size


# %% right: one buffer for each kind
def average_gradients(comm, replicas, dense, experts):
    for group, parameters in ((comm, dense), (replicas, experts)):
        if not parameters:
            continue
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
        group.all_reduce(flat)
        for p, part in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad = part.view(p.shape) / comm.size


# %% wrong: as it was, with zeros => values group-times  from: zeros, a sum, all ranks
# ~ grad /= comm.size ==> grad /= group.size

# %% wrong: as it was => values -  from: the card

# %% wrong: repaired, but None stays => values raised  from: zeros, a sum, all ranks
# -             if p.grad is None:
# -                 p.grad = torch.zeros_like(p)

# %% wrong: who has nothing stays away => values deadlock  from: zeros, a sum, all ranks
# ~ p.grad = torch.zeros_like(p) ==> continue

# %% wrong: sums => values not-divided  from: zeros, a sum, all ranks
# -             p.grad /= comm.size

# %% wrong: divided by the group => values divided-by-group  from: zeros, a sum, all ranks
# ~ size ==> size if group is comm else comm.size // replicas.size

# %% wrong: divided twice => values divided-twice  from: zeros, a sum, all ranks
# ~ size ==> size * (1 if group is comm else replicas.size)

# %% wrong: experts over all ranks => values -  from: zeros, a sum, all ranks
# ~ ), (replicas ==> ), (comm

# %% wrong: dense gradients over the replicas => values -  from: zeros, a sum, all ranks
# ~ comm, dense ==> replicas, dense

# %% wrong: everything is gathered => cost too-many-bytes  from: zeros, a sum, all ranks
# -             group.all_reduce(p.grad)
# +             every = [torch.zeros_like(p.grad) for _ in range(group.size)]
# +             group.all_gather(every, p.grad)
# +             p.grad = sum(every)

# %% wrong: a mean over those that have a gradient => values -  from: zeros, a sum, all ranks
#           for p in parameters:
# +             some = torch.tensor(float(p.grad is not None))
#                   p.grad = torch.zeros_like(p)
# +             group.all_reduce(some)
# ~ grad /= comm ==> grad *= group.size / max(1.0, some.item()) / comm

# %% wrong: the weights are averaged too => values changed  from: zeros, a sum, all ranks
# -             p.grad /= comm.size
# +             p.grad /= comm.size
# +             group.all_reduce(p.data)

# %% wrong: two parameters at most => values ~  from: zeros, a sum, all ranks
# ~ in parameters: ==> in parameters[:2]:

# %% half: as it was => 0.8  from: as it was
