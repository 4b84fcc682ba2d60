import torch


# %% right: a gradient for each micro-batch
def train_step(master, momentum, microbatches, loss_of, rate, accumulate):
    copy = master.bfloat16().requires_grad_()
    buffer = torch.zeros_like(master, dtype=accumulate)
    for batch in microbatches:
        (gradient,) = torch.autograd.grad(loss_of(copy, batch), copy)
        buffer += gradient
    gradient = buffer / len(microbatches)
    momentum = 0.9 * momentum + gradient
    master = master - rate * momentum
    return master, momentum, master.bfloat16()


# %% right: backward and a fresh gradient
def train_step(master, momentum, microbatches, loss_of, rate, accumulate):
    copy = torch.nn.Parameter(master.to(torch.bfloat16))
    total = None
    for batch in microbatches:
        copy.grad = None
        (loss_of(copy, batch) / len(microbatches)).backward()
        total = copy.grad.to(accumulate) if total is None else total + copy.grad.to(accumulate)
    momentum = momentum.mul(0.9).add(total.float())
    master = master.sub(momentum, alpha=rate)
    return [master, momentum, master.to(torch.bfloat16)]


# %% right: any variant  from: a gradient for each micro-batch
# - def train_step(master, momentum, microbatches, loss_of, rate, accumulate):
# + from course_lib import params
# + REDUCE = params("mixed-precision-step").reduce
# + def train_step(master, momentum, microbatches, loss_of, rate, accumulate):
# ~ len(microbatches) ==> (len(microbatches) if REDUCE == "mean" else 1)


# %% wrong: gradients add up in bf16 => values buffer-dtype  from: a gradient for each micro-batch
# ~ zeros_like(master, dtype=accumulate) ==> zeros_like(copy)

# %% wrong: the buffer is always fp32 => values buffer-dtype  from: a gradient for each micro-batch
# ~ zeros_like(master, dtype=accumulate) ==> zeros_like(master)

# %% wrong: no master copy => values from-the-copy  from: a gradient for each micro-batch
# ~ master = master - rate ==> master = copy.detach().float() - rate

# %% wrong: the master weights are rounded => values master-in-bf16  from: a gradient for each micro-batch
# ~ master - rate * momentum ==> (master - rate * momentum).bfloat16().float()

# %% wrong: the master weights are bf16 => values another-kind  from: a gradient for each micro-batch
# ~ master - rate * momentum ==> (master - rate * momentum).bfloat16()

# %% wrong: fp32 in the forward pass => values forward-dtype  from: a gradient for each micro-batch
# ~ copy = master.bfloat16().requires_grad_() ==> copy = master.clone().requires_grad_()

# %% wrong: the sum => values other-reduction unless reduce=sum  from: a gradient for each micro-batch
# ~ buffer / len(microbatches) ==> buffer

# %% wrong: the old copy comes back => values stale-copy  from: a gradient for each micro-batch
# ~ momentum, master.bfloat16() ==> momentum, copy.detach()

# %% wrong: the momentum starts anew => values no-momentum  from: a gradient for each micro-batch
# ~ 0.9 * momentum + gradient ==> gradient.float()

# %% wrong: one micro-batch for all => values other-calls  from: a gradient for each micro-batch
# ~ for batch in microbatches: ==> for batch in microbatches[:1]:

# %% wrong: in place => values changed  from: a gradient for each micro-batch
# ~ 0.9 * momentum + gradient ==> momentum.mul_(0.9).add_(gradient)

# %% wrong: no momentum while there is no gradient => generality momentum-undamped  from: a gradient for each micro-batch
# ~ momentum = 0.9 * momentum + gradient ==> momentum = 0.9 * momentum + gradient if gradient.any() else momentum

# %% wrong: the list of micro-batches is used up => values changed-arguments  from: a gradient for each micro-batch
# -     for batch in microbatches:
# +     count = len(microbatches)
# +     while microbatches:
# +         batch = microbatches.pop(0)
# ~ len(microbatches) ==> count

# %% wrong: two gradients are added in fp32 => generality -  from: a gradient for each micro-batch
# ~ dtype=accumulate ==> dtype=accumulate if len(microbatches) > 2 else torch.float32
