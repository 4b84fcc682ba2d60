import torch


# %% right: whole spacings
def round_to_format(x, exponent_bits, fraction_bits):
    bias = 2 ** (exponent_bits - 1) - 1
    exponent = torch.frexp(x.nan_to_num(0.0, 0.0, 0.0)).exponent - 1
    spacing = 2.0 ** (exponent.clamp(min=1 - bias) - fraction_bits)
    y = torch.round(x / spacing) * spacing
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    return torch.where(y.abs() > largest, y.sign() * torch.inf, y)


# %% right: by adding and subtracting a large number
def round_to_format(x, exponent_bits, fraction_bits):
    bias = 2 ** (exponent_bits - 1) - 1
    power = 2.0 ** (torch.frexp(x.nan_to_num(0.0, 0.0, 0.0)).exponent.double() - 1)
    spacing = power.clamp(min=2.0 ** (1 - bias)) / 2**fraction_bits
    large = 1.5 * 2.0**52 * spacing
    y = torch.where(x.isfinite(), (x + large) - large, x)
    largest = (2 - 2.0**-fraction_bits) * 2.0**bias
    return y.masked_fill(y > largest, torch.inf).masked_fill(y < -largest, -torch.inf)


# %% right: any variant  from: whole spacings
# - def round_to_format(x, exponent_bits, fraction_bits):
# + from course_lib import params
# + OVERFLOW = params("round-to-format").overflow
# + def round_to_format(x, exponent_bits, fraction_bits):
# ~ round(x / spacing) * spacing ==> where(x.isinf(), x, torch.round(x / spacing) * spacing)
# ~ torch.inf ==> (torch.inf if OVERFLOW == "infinity" else largest)


# %% right: by searching a table
def round_to_format(x, exponent_bits, fraction_bits):
    bias, per_octave = 2 ** (exponent_bits - 1) - 1, 2**fraction_bits
    steps = torch.arange(per_octave, dtype=torch.float64)
    smallest = 2.0 ** (1 - bias)
    numbers = [steps / per_octave * smallest]  # subnormal
    numbers += [(1 + steps / per_octave) * 2.0**e for e in range(1 - bias, bias + 1)]
    table = torch.cat(
        [*numbers, torch.tensor([2.0 ** (bias + 1)], dtype=torch.float64)]
    )  # the last one stands for infinity
    size = x.abs().nan_to_num(0.0, posinf=2.0 ** (bias + 1))
    above = torch.searchsorted(table, size.contiguous()).clamp(max=len(table) - 1)
    below = (above - 1).clamp(min=0)
    low, high = size - table[below], table[above] - size
    nearest = torch.where(low < high, below, torch.where(low > high, above, torch.where(above % 2 == 0, above, below)))
    nearest = torch.where(table[above] == size, above, nearest)
    y = torch.where(nearest == len(table) - 1, torch.inf, table[nearest])
    return torch.where(x.isnan(), x, torch.where(x < 0, -y, y))


# %% wrong: digits are cut off => values truncated  from: whole spacings
# ~ y = torch.round(x / spacing) ==> y = torch.trunc(x / spacing)

# %% wrong: ties go away from zero => values ties-away  from: whole spacings
# ~ torch.round(x / spacing) ==> x.sign() * torch.floor((x / spacing).abs() + 0.5)

# %% wrong: ties go up => values -  from: whole spacings
# ~ round(x / spacing) ==> floor(x / spacing + 0.5)

# %% wrong: no subnormal numbers => values flushed  from: whole spacings
# ~ torch.inf, y) ==> torch.inf, torch.where(y.abs() < 2.0 ** (1 - bias), 0.0, y))

# %% wrong: spacings shrink without end => values no-smallest  from: whole spacings
# ~ * (exponent.clamp(min=1 - bias) - fraction_bits) ==> * (exponent - fraction_bits)

# %% wrong: nothing overflows => values no-overflow  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> y

# %% wrong: it saturates => values other-overflow unless overflow=saturate  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> y.clamp(-largest, largest)

# %% wrong: overflow before rounding => values early  from: whole spacings
# ~ y.abs() > largest, y ==> x.abs() > largest, x

# %% wrong: through float32 => generality twice  from: whole spacings
# ~ bias = 2 ** (exponent_bits - 1) - 1 ==> x, bias = x.float().double(), 2 ** (exponent_bits - 1) - 1


# %% wrong: the casts of torch => generality -
def round_to_format(x, exponent_bits, fraction_bits):
    dtype = {5: torch.float16, 8: torch.bfloat16}.get(exponent_bits, torch.float32)
    return x.to(dtype).double()


# %% wrong: the dtype of a half => values another-kind  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> x.half()

# %% wrong: x is rounded in place => values changed  from: whole spacings
# ~ torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> x.copy_(torch.where(y.abs() > largest, y.sign() * torch.inf, y))

# %% wrong: the largest finite number overflows => values -  from: whole spacings
# ~ y.abs() > largest ==> x.abs() >= largest

# %% wrong: the first result of a shape and format is kept => values -  from: whole spacings
# ~ def round_to_format(x, exponent_bits, fraction_bits): ==> def round_to_format(x, exponent_bits, fraction_bits, kept={}):
# ~ return torch.where(y.abs() > largest, y.sign() * torch.inf, y) ==> return kept.setdefault((x.shape, exponent_bits, fraction_bits), torch.where(y.abs() > largest, y.sign() * torch.inf, y))
