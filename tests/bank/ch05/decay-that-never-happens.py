import torch


# %% right: all of it in fp32
def adamw_step(weight, direction, rate, decay, stochastic_round):
    wide = weight.float()
    return stochastic_round(wide * (1 - rate * decay) - rate * direction)


# %% right: one change, in fp32  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate * direction ==> torch.add(wide, -rate * (decay * wide + direction))

# %% wrong: as it was => values decay-lost  from: the card

# %% wrong: rounded twice => values rounded-again  from: all of it in fp32
# ~ wide * (1 - rate * decay) ==> stochastic_round(wide * (1 - rate * decay)).float()

# %% wrong: no decay => values decay-lost  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate ==> wide - rate

# %% wrong: rounded to nearest => values not-stochastic  from: all of it in fp32
# ~ stochastic_round(wide * (1 - rate * decay) - rate * direction) ==> (wide * (1 - rate * decay) - rate * direction).bfloat16()

# %% wrong: the decay without the rate => values decay-without-rate  from: all of it in fp32
# ~ rate * decay ==> decay

# %% wrong: bf16 is rounded => values another-kind  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate * direction ==> (wide * (1 - rate * decay) - rate * direction).bfloat16()

# %% wrong: the factor in bf16 => values -  from: all of it in fp32
# ~ (1 - rate * decay) ==> torch.tensor(1 - rate * decay).bfloat16().float()


# %% wrong: in place => values changed  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate * direction ==> wide - direction.mul_(rate) - rate * decay * wide

# %% wrong: fp32 comes back => values another-kind  from: all of it in fp32
# ~ wide * (1 - rate * decay) - rate * direction) ==> wide * (1 - rate * decay) - rate * direction).float()

# %% wrong: the given weight is overwritten => values changed  from: all of it in fp32
# ~ stochastic_round(wide * (1 - rate * decay) - rate * direction) ==> weight.copy_(stochastic_round(wide * (1 - rate * decay) - rate * direction))
