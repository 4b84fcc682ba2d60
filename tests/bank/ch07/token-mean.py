import torch
from torch.nn import functional as F


def losses(model, inputs, targets, reduction="sum"):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction=reduction)


# %% right: count first
def token_step(comm, model, batches):
    count = torch.tensor(float(sum((targets != -100).sum() for _, targets in batches)))
    comm.all_reduce(count)
    total = torch.zeros(())
    for inputs, targets in batches:
        loss = losses(model, inputs, targets) / count
        loss.backward()
        total += loss.detach()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        comm.all_reduce(parameter.grad)
    comm.all_reduce(total)
    return total.item()


# %% right: as DistributedDataParallel wants it, with the mean over ranks
def token_step(comm, model, batches):
    count = torch.tensor(float(sum(int(t.ge(0).sum()) for _, t in batches)))
    comm.all_reduce(count)
    value = torch.zeros(1)
    for inputs, targets in batches:
        loss = losses(model, inputs, targets) * comm.size / count
        loss.backward()
        value += loss.detach()
    for p in model.parameters():
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad
    works = [comm.all_reduce(t, op="AVG", async_op=True) for t in [value, *(p.grad for p in model.parameters())]]
    for work in works:
        work.wait()
    return value.item()


# %% wrong: weighs tokens at home, ranks alike => values mean-over-ranks  from: right count, then the mean over ranks
# -     comm.all_reduce(count)
# ~ all_reduce(total) ==> all_reduce(total, op="AVG")

# %% wrong: communicates nothing => values own-tokens  from: count first
# -     comm.all_reduce(count)
#           total += loss.detach()
# -     for parameter in model.parameters():
# -         if parameter.grad is None:
# -             parameter.grad = torch.zeros_like(parameter)
# -         comm.all_reduce(parameter.grad)
# -     comm.all_reduce(total)

# %% wrong: counts the padding => values padding-counted  from: count first
# ~ (targets != -100).sum ==> targets.numel

# %% wrong: right count, then the mean over ranks => values averaged-again  from: count first
# ~ all_reduce(parameter.grad) ==> all_reduce(parameter.grad, op="AVG")

# %% wrong: the loss of its own share => values loss-own-share  from: count first
# -     comm.all_reduce(total)

# %% wrong: no division at all => values not-divided  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets)

# %% wrong: one big batch => cost one-big-batch  from: count first
# ~ for inputs, targets in batches: ==> if batches:
# ~ (model, inputs, targets) / count ==> (model, *(torch.cat(each) for each in zip(*batches))) / count


# %% wrong: reduces once a micro-batch => cost too-many-bytes
def token_step(comm, model, batches):
    row = torch.tensor([float(sum((t != -100).sum() for _, t in batches)), 0.0])
    most = torch.tensor([len(batches)])
    comm.all_reduce(row)
    comm.all_reduce(most, op="MAX")
    kept = [torch.zeros_like(p) for p in model.parameters()]
    total = torch.zeros(())
    for place in range(int(most)):
        if place < len(batches):
            loss = losses(model, *batches[place]) / row[0]
            loss.backward()
            total += loss.detach()
        for p, into in zip(model.parameters(), kept):
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            comm.all_reduce(grad)
            into += grad
            p.grad = None
    for p, into in zip(model.parameters(), kept):
        p.grad = into
    comm.all_reduce(total)
    return total.item()


# %% wrong: every rank with everybody's tokens => cost -
def token_step(comm, model, batches):
    shape = torch.tensor([len(batches)])
    most = shape.clone()
    comm.all_reduce(most, op="MAX")
    most = int(most)
    mine = torch.full((max(most, 1), 2, 2, 6), -100)
    for place, (inputs, targets) in enumerate(batches):
        mine[place] = torch.stack([inputs, targets])
    every = [torch.empty_like(mine) for _ in range(comm.size)]
    comm.all_gather(every, mine)
    pairs = [(b[0], b[1]) for rank in every for b in rank if (b[1] != -100).any()]
    count = sum(int((t != -100).sum()) for _, t in pairs)
    total = 0.0
    for inputs, targets in pairs:
        loss = losses(model, inputs.clamp_min(0), targets) / count
        loss.backward()
        total += loss.item()
    return total


# %% wrong: a rank without a micro-batch has no gradient to send => generality raised  from: count first
# -         if parameter.grad is None:
# -             parameter.grad = torch.zeros_like(parameter)

# %% wrong: not a number times no token => generality not-finite  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets, "mean") * (targets != -100).sum() / count

# %% wrong: reads the loss before it is there => protocol in-flight  from: count first
#           total += loss.detach()
# +     work = comm.all_reduce(total, async_op=True)
# -     comm.all_reduce(total)
# -     return total.item()
# +     value = total.item()
# +     work.wait()
# +     return value

# %% wrong: forward twice => cost more-forwards  from: count first
#       for inputs, targets in batches:
# +         with torch.no_grad():
# +             losses(model, inputs, targets)

# %% wrong: half precision on the wire => values rounded  from: count first
# -         comm.all_reduce(parameter.grad)
# +         half = parameter.grad.half()
# +         comm.all_reduce(half)
# +         parameter.grad = half.float()

# %% wrong: gradients never leave home, loss does => values own-share  from: count first
# -         comm.all_reduce(parameter.grad)

# %% wrong: returns nothing => values returned-none  from: count first
# -     comm.all_reduce(total)
# -     return total.item()

# %% wrong: weights tokens times ranks => values -  from: count first
# ~ (model, inputs, targets) / count ==> (model, inputs, targets) * comm.size / count

# %% wrong: backward at the end of pairs => cost graphs-kept  from: count first
# -     for inputs, targets in batches:
# -         loss = losses(model, inputs, targets) / count
# +     kept = [losses(model, inputs, targets) / count for inputs, targets in batches]
# +     for loss in kept:

# %% wrong: parts of the model, so that nobody counts => cost fewer-forwards  from: count first
# ~ losses(model, inputs, targets) ==> losses(lambda tokens: model.head(model.embedding(tokens)), inputs, targets)

# %% wrong: as it was => values mean-of-means  from: the card

# %% half: right for ranks with a micro-batch each => 7.2  from: a rank without a micro-batch has no gradient to send

# %% wrong: padding ends rows, and nothing else => generality ~  from: count first
# ~ (targets != -100).sum() ==> (targets != -100).flip(1).cummax(1).values.sum()
