import torch


# %% right: the carry
def stochastic_round(x, noise):
    bits = (x.view(torch.int32) + noise) & -(2**16)
    return torch.where(x.isfinite(), bits.view(torch.float32), x).to(torch.bfloat16)


# %% right: by comparing
def stochastic_round(x, noise):
    bits = x.view(torch.int32)
    low = bits & 0xFFFF
    down = bits - low
    up = down + 2**16
    rounded = torch.where(noise < low, up, down).view(torch.float32)
    return torch.where(x.isnan() | x.isinf(), x, rounded).bfloat16()


# %% right: any variant  from: the carry
# - def stochastic_round(x, noise):
# + from course_lib import params
# + DROPPED = 16 if params("stochastic-rounding").format == "bf16" else 13
# + def stochastic_round(x, noise):
# -     bits = (x.view(torch.int32) + noise) & -(2**16)
# -     return torch.where(x.isfinite(), bits.view(torch.float32), x).to(torch.bfloat16)
# +     bits = (x.view(torch.int32) + noise) & -(2**DROPPED)
# +     y = torch.where(x.isfinite(), bits.view(torch.float32), x)
# +     return y.to(torch.bfloat16) if DROPPED == 16 else y


# %% wrong: to nearest => values nearest  from: the carry
# ~ torch.where(x.isfinite(), bits.view(torch.float32), x) ==> x

# %% wrong: digits are cut off => values cut-off  from: the carry
# ~ (x.view(torch.int32) + noise) ==> x.view(torch.int32)


# %% wrong: the conversion rounds once more => values -  from: the carry
# ~ (x.view(torch.int32) + noise) & -(2**16) ==> x.view(torch.int32) + noise
# ~ torch.where(x.isfinite(), bits.view(torch.float32), x) ==> bits.view(torch.float32)

# %% wrong: noise around zero => values -  from: the carry
# ~ (torch.int32) + noise) & -(2**16 ==> (torch.int32) + noise - 2**15) & -(2**16

# %% wrong: up when the noise is large => values reversed  from: by comparing
# ~ noise < low ==> noise >= low

# %% wrong: a number of the format moves => values -  from: by comparing
# ~ noise < low, ==> noise <= low,

# %% wrong: half of the noise => values biased  from: the carry
# ~ (torch.int32) + noise) & -(2**16 ==> (torch.int32) + noise // 2) & -(2**16

# %% wrong: negative numbers lean the other way => generality reversed  from: by comparing
# ~ noise < low ==> (noise < low) ^ ((x < 0) & (low > 0))

# %% wrong: NaN becomes something else => generality lost-nan  from: the carry
# ~ torch.where(x.isfinite(), bits.view(torch.float32), x) ==> torch.where(x.isinf(), x, bits.view(torch.float32)).nan_to_num(0.0, torch.inf, -torch.inf)

# %% wrong: subnormal numbers are flushed => values not-a-neighbor  from: the carry
# -     return torch.where(x.isfinite(), bits.view(torch.float32), x).to(torch.bfloat16)
# +     y = torch.where(x.isfinite(), bits.view(torch.float32), x)
# +     return torch.where(y.abs() < 2.0**-126, 0.0, y).to(torch.bfloat16)

# %% wrong: noise of its own => values -  from: the carry
# ~ + noise) ==> + torch.randint(0, 2**16, x.shape, dtype=torch.int32))

# %% wrong: fp32 comes back => values another-kind  from: the carry
# ~ x).to(torch.bfloat16) ==> x)

# %% wrong: in place => values changed  from: the carry
# ~ (x.view(torch.int32) + noise) ==> noise.add_(x.view(torch.int32))


# %% wrong: the carry runs over a NaN => generality lost-nan  from: the carry
# ~ torch.where(x.isfinite(), bits.view(torch.float32), x) ==> bits.view(torch.float32)

# %% wrong: rare carries are rounded to nearest => values biased  from: the carry
# ~ + noise) ==> + torch.where(x.view(torch.int32) % 2**16 < 300, 0, noise))
