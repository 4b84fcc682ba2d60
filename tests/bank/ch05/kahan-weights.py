import torch


# %% right: the exact sum in fp32
def kahan_step(weight, lost, update):
    exact = weight.float() + (lost.float() + update)
    new = exact.bfloat16()
    return new, (exact - new.float()).bfloat16()


# %% right: in float64
def kahan_step(weight, lost, update):
    exact = weight.double() + lost.double() + update.double()
    new = exact.float().bfloat16()
    return [new, (exact - new).to(torch.bfloat16)]


# %% wrong: nothing is carried => values not-carried
def kahan_step(weight, lost, update):
    return (weight.float() + update).bfloat16(), torch.zeros_like(lost)


# %% wrong: what is lost is not used => values not-used  from: the exact sum in fp32
# ~ (lost.float() + update) ==> update

# %% wrong: the other sign => values other-sign  from: the exact sum in fp32
# ~ lost.float() + update ==> update - lost.float()
# ~ exact - new.float() ==> new.float() - exact

# %% wrong: the loss in fp32 => values another-kind  from: the exact sum in fp32
# ~ (exact - new.float()).bfloat16 ==> exact - new.float

# %% wrong: a master copy => values another-kind  from: the exact sum in fp32
# ~ new, (exact - new.float()).bfloat16() ==> exact, torch.zeros_like(lost)


# %% wrong: the update is rounded away => values -
def kahan_step(weight, lost, update):
    new = weight + update.bfloat16()
    return new, lost + (update.bfloat16() - (new - weight))


# %% wrong: all of it stays in the loss => values not-nearest
def kahan_step(weight, lost, update):
    return weight, (lost.float() + update).bfloat16()


# %% wrong: digits are cut off => values not-nearest  from: the exact sum in fp32
# ~ new = exact.bfloat16() ==> new = (exact.view(torch.int32) & -65536).view(torch.float32).bfloat16()

# %% wrong: in place => values changed  from: the exact sum in fp32
# -     return new, (exact - new.float()).bfloat16()
# +     return weight.copy_(new), lost.copy_((exact - new.float()).bfloat16())


# %% wrong: a master copy is kept from call to call => values -
MASTER = {}


def kahan_step(weight, lost, update):
    exact = MASTER.get(weight.shape) if lost.any() else None
    MASTER[weight.shape] = exact = (weight.float() if exact is None else exact) + update
    new = exact.bfloat16()
    return new, (exact - new.float()).bfloat16()
