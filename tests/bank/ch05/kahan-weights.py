import torch


# %% right: the exact sum in fp32
def kahan_step(weight, lost, update):
    exact = weight + (lost + update)
    new = exact.bfloat16()
    return new, (exact - new).bfloat16()


# %% right: in float64
def kahan_step(weight, lost, update):
    exact = weight.double() + lost.double() + update.double()
    new = exact.float().bfloat16()
    return [new, (exact - new).to(torch.bfloat16)]


# %% wrong: nothing is carried => values not-carried  from: the exact sum in fp32
# ~ (lost + update) ==> update
# ~ (exact - new).bfloat16() ==> torch.zeros_like(lost)

# %% wrong: what is lost is not used => values not-used  from: the exact sum in fp32
# ~ (lost + update) ==> update

# %% wrong: the other sign => values other-sign  from: the exact sum in fp32
# ~ lost + update ==> update - lost
# ~ exact - new ==> new - exact

# %% wrong: the loss in fp32 => values another-kind  from: the exact sum in fp32
# ~ (exact - new).bfloat16() ==> exact - new

# %% wrong: a master copy => values another-kind  from: the exact sum in fp32
# ~ new, (exact - new).bfloat16() ==> exact, torch.zeros_like(lost)


# %% wrong: the update is rounded away => values -
def kahan_step(weight, lost, update):
    new = weight + update.bfloat16()
    return new, lost + (update.bfloat16() - (new - weight))


# %% wrong: all of it stays in the loss => values not-nearest  from: the exact sum in fp32
# ~ new, (exact - new) ==> weight, (lost + update)

# %% wrong: digits are cut off => values not-nearest  from: the exact sum in fp32
# ~ new = exact.bfloat16() ==> new = (exact.view(torch.int32) & -65536).view(torch.float32).bfloat16()

# %% wrong: in place => values changed  from: the exact sum in fp32
# ~ new, (exact - new).bfloat16() ==> weight.copy_(new), lost.copy_((exact - new).bfloat16())

# %% wrong: a master copy is kept from call to call => values -  from: the exact sum in fp32
# ~ def kahan_step(weight, lost, update): ==> def kahan_step(weight, lost, update, kept={}):
# ~ exact = weight + (lost + update) ==> exact = kept[weight.shape] = (kept.get(weight.shape, weight) if lost.any() else weight) + update
