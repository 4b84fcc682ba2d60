from contextlib import nullcontext

import torch


# %% right: no_sync around all but the last
def accumulate(replica, batches, loss):
    for step, (inputs, targets) in enumerate(batches):
        last = step == len(batches) - 1
        with nullcontext() if last else replica.no_sync():
            (loss(replica(inputs), targets) / len(batches)).backward()


# %% right: only the forward passes inside
def accumulate(replica, batches, loss):
    *first, (inputs, targets) = batches
    for x, y in first:
        with replica.no_sync():
            out = replica(x)
        torch.autograd.backward(loss(out, y) / len(batches))
    replica.require_backward_grad_sync = True
    (loss(replica(inputs), targets) / len(batches)).backward()


# %% right: flag by hand, raised again
def accumulate(replica, batches, loss):
    replica.require_backward_grad_sync = False
    for x, y in batches[:-1]:
        (loss(replica(x), y) / len(batches)).backward()
    replica.require_backward_grad_sync = True
    x, y = batches[-1]
    (loss(replica(x), y) / len(batches)).backward()


# %% wrong: averages every micro-batch => cost every-micro-batch  from: no_sync around all but the last
# ~ nullcontext() if last else replica.no_sync() ==> nullcontext()

# %% wrong: the last one inside too => values never-averaged  from: no_sync around all but the last
# ~ nullcontext() if last else replica.no_sync() ==> replica.no_sync()

# %% wrong: the first instead of the last => values flag-too-late  from: no_sync around all but the last
# ~ step == len(batches) - 1 ==> step == 0

# %% wrong: one short => values -  from: no_sync around all but the last
# ~ step == len(batches) - 1 ==> step == len(batches) - 2

# %% wrong: forgets the mean => values not-divided  from: no_sync around all but the last
# ~ (loss(replica(inputs), targets) / len(batches)).backward() ==> loss(replica(inputs), targets).backward()

# %% wrong: as it was => values flag-too-late  from: the card


# %% wrong: one big batch => cost one-big-batch
def accumulate(replica, batches, loss):
    loss(replica(torch.cat([x for x, _ in batches])), torch.cat([y for _, y in batches])).backward()


# %% wrong: all forward, then all back => cost graphs-kept
def accumulate(replica, batches, loss):
    total = 0
    for step, (inputs, targets) in enumerate(batches):
        replica.require_backward_grad_sync = step == len(batches) - 1
        total = total + loss(replica(inputs), targets) / len(batches)
    total.backward()


# %% wrong: only the last micro-batch => values last-only
def accumulate(replica, batches, loss):
    inputs, targets = batches[-1]
    (loss(replica(inputs), targets) / len(batches)).backward()


# %% wrong: an extra forward pass to raise the flag => cost more-forwards  from: the last one inside too
#               (loss(replica(inputs), targets) / len(batches)).backward()
# +     (0 * loss(replica(batches[-1][0]), batches[-1][1])).backward()

# %% wrong: leaves the flag down => generality never-averaged  from: no_sync around all but the last
#               (loss(replica(inputs), targets) / len(batches)).backward()
# +     replica.require_backward_grad_sync = False

# %% wrong: every second => cost too-many-collectives  from: no_sync around all but the last
# ~ step == len(batches) - 1 ==> step % 2 == 1 or step == len(batches) - 1

# %% wrong: no_grad => values raised  from: no_sync around all but the last
# ~ nullcontext() if last else replica.no_sync() ==> torch.no_grad()

# %% wrong: divides by all but one => values -  from: no_sync around all but the last
# ~ / len(batches) ==> / max(len(batches) - 1, 1)

# %% wrong: the module in place of the replica => cost fewer-forwards  from: only the forward passes inside
# ~ out = replica(x) ==> out = replica.module(x)

# %% half: averages every micro-batch => 4  from: averages every micro-batch

# %% wrong: a loss of its own => values -  from: no_sync around all but the last
# ~ loss(replica(inputs), targets) ==> (replica(inputs) - targets).square().mean()
