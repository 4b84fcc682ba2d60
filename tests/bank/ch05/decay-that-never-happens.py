import torch


# %% right: all of it in fp32
def adamw_step(weight, direction, rate, decay, stochastic_round):
    wide = weight.float()
    return stochastic_round(wide * (1 - rate * decay) - rate * direction)


# %% right: one change, in fp32
def adamw_step(weight, direction, rate, decay, stochastic_round):
    change = -rate * (decay * weight.to(torch.float32) + direction)
    return stochastic_round(torch.add(weight.to(torch.float32), change))


# %% wrong: as it was => values decay-lost
def adamw_step(weight, direction, rate, decay, stochastic_round):
    weight = weight * (1 - rate * decay)
    return stochastic_round(weight.float() - rate * direction)


# %% wrong: rounded twice => values rounded-again  from: all of it in fp32
# ~ wide * (1 - rate * decay) ==> stochastic_round(wide * (1 - rate * decay)).float()

# %% wrong: no decay => values decay-lost  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate ==> wide - rate

# %% wrong: rounded to nearest => values not-stochastic  from: all of it in fp32
# -     return stochastic_round(wide * (1 - rate * decay) - rate * direction)
# +     return (wide * (1 - rate * decay) - rate * direction).bfloat16()

# %% wrong: the decay without the rate => values decay-without-rate  from: all of it in fp32
# ~ rate * decay ==> decay

# %% wrong: bf16 is rounded => values another-kind  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate * direction ==> (wide * (1 - rate * decay) - rate * direction).bfloat16()

# %% wrong: the factor in bf16 => values -  from: all of it in fp32
# ~ (1 - rate * decay) ==> torch.tensor(1 - rate * decay).bfloat16().float()


# %% wrong: in place => values changed
def adamw_step(weight, direction, rate, decay, stochastic_round):
    return stochastic_round(weight.float() - direction.mul_(rate) - rate * decay * weight.float())


# %% wrong: fp32 comes back => values another-kind
def adamw_step(weight, direction, rate, decay, stochastic_round):
    return stochastic_round(weight.float() * (1 - rate * decay) - rate * direction).float()


# %% wrong: the given weight is overwritten => values changed
def adamw_step(weight, direction, rate, decay, stochastic_round):
    return weight.copy_(stochastic_round(weight.float() * (1 - rate * decay) - rate * direction))
