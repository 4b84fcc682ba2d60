import torch
from torch.nn import functional as F


def descend(model, rate):
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * p.grad
            p.grad = None


# %% right: count, then sums
def train(comm, model, batches, rate):
    rest, steps = iter(batches), 0
    while True:
        batch = next(rest, None)
        count = torch.tensor([0.0 if batch is None else float(len(batch[0]))])
        comm.all_reduce(count)
        if not count:
            return steps
        steps += 1
        if batch is not None:
            (F.mse_loss(model(batch[0]), batch[1]) * (len(batch[0]) / count.item())).backward()
        for p in model.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            comm.all_reduce(p.grad)
        descend(model, rate)


# %% right: an empty batch through the model
def train(comm, model, batches, rate):
    most = torch.tensor(len(batches))
    comm.all_reduce(most, op="MAX")
    w = next(model.parameters()).shape[1]
    for s in range(int(most)):
        x, y = batches[s] if s < len(batches) else (torch.zeros(0, w), torch.zeros(0, w))
        c = torch.tensor([float(y.numel())])
        comm.all_reduce(c)
        ((model(x) - y).square().sum() / c).backward()
        for p in model.parameters():
            comm.all_reduce(p.grad)
        descend(model, rate)
    return int(most)


# %% wrong: as it was found => protocol deadlock  from: the card

# %% wrong: stops when the first runs dry => values data-dropped  from: count, then sums
# -     rest, steps = iter(batches), 0
# +     least = torch.tensor([len(batches)])
# +     comm.all_reduce(least, op="MIN")
# +     rest, steps = iter(batches[: int(least)]), 0

# %% wrong: zeros that count in the mean => values idle-counted  from: count, then sums
# ~ (F.mse_loss(model(batch[0]), batch[1]) * (len(batch[0]) / count.item())) ==> F.mse_loss(model(batch[0]), batch[1])
# ~ all_reduce(p.grad) ==> all_reduce(p.grad, op="AVG")

# %% wrong: divides by the ranks that have data, large batch or small => values mean-of-means  from: count, then sums
# ~ 0.0 if batch is None else float(len(batch[0])) ==> float(batch is not None)
# ~ * (len(batch[0]) / count.item()) ==> / count.item()

# %% wrong: reads its last batch again => values read-again  from: count, then sums
# -     rest, steps = iter(batches), 0
# +     most = torch.tensor([len(batches)])
# +     comm.all_reduce(most, op="MAX")
# +     rest, steps = iter(batches + [batches[-1] for _ in range(int(most) - len(batches))]), 0


# %% wrong: everyone alone => values own-model
def train(comm, model, batches, rate):
    for inputs, targets in batches:
        F.mse_loss(model(inputs), targets).backward()
        descend(model, rate)
    return len(batches)


# %% wrong: counts its own steps => values own-steps  from: count, then sums
# ~ return steps ==> return len(batches)


# %% wrong: all data to everyone => cost too-many-bytes
def train(comm, model, batches, rate):
    most = torch.tensor([len(batches), max((len(x) for x, _ in batches), default=0)])
    comm.all_reduce(most, op="MAX")
    steps, rows = most.tolist()
    width = next(model.parameters()).shape[1]
    mine = torch.full((max(steps, 1), max(rows, 1), 2, width), float("nan"))
    for step, (inputs, targets) in enumerate(batches):
        mine[step, : len(inputs)] = torch.stack([inputs, targets], 1)
    every = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    for step in range(steps):
        data = torch.cat([e[step] for e in every])
        data = data[~data[:, 0, 0].isnan()]
        F.mse_loss(model(data[:, 0]), data[:, 1]).backward()
        descend(model, rate)
    return steps


# %% wrong: no batch at all is no case it knows => generality raised  from: an empty batch through the model
# ~ w = next(model.parameters()).shape[1] ==> empty = batches[0][0][:0], batches[0][1][:0]
# ~ (torch.zeros(0, w), torch.zeros(0, w)) ==> empty

# %% wrong: descends before the sum is there => values -  from: count, then sums
#           steps += 1
# +         works = []
# ~ comm.all_reduce(p.grad) ==> works.append(comm.all_reduce(p.grad, async_op=True))
#           descend(model, rate)
# +         for work in works:
# +             work.wait()

# %% wrong: one barrier at the end => values raised  from: everyone alone
#           F.mse_loss(model(inputs), targets).backward()
# +         for p in model.parameters():
# +             comm.all_reduce(p.grad, op="AVG")
#           descend(model, rate)
# +     comm.barrier()

# %% wrong: by way of rank 0 => cost one-root  from: count, then sums
# -             comm.all_reduce(p.grad)
# +             every = [torch.empty_like(p.grad) for _ in range(comm.size)] if comm.rank == 0 else None
# +             comm.gather(p.grad, every, dst=0)
# +             if comm.rank == 0:
# +                 p.grad = sum(every)
# +                 for r in range(1, comm.size):
# +                     comm.send(p.grad, r)
# +             else:
# +                 comm.recv(p.grad, 0)

# %% wrong: tells nobody how many steps => values returned-none  from: count, then sums
# ~ return steps ==> return

# %% half: no batch at all is no case it knows => 6.8  from: an empty batch through the model
# -         x, y = batches[s] if s < len(batches) else (torch.zeros(0, w), torch.zeros(0, w))
# +         empty = (batches[0][0][:0], batches[0][1][:0]) if batches else None
# +         if comm.size > 4:
# +             empty = empty or (torch.zeros(0, w), torch.zeros(0, w))
# +         x, y = batches[s] if s < len(batches) else empty

# %% wrong: one learning rate => values ~  from: count, then sums
# ~ descend(model, rate) ==> descend(model, 0.2)
