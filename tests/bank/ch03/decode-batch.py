import math

from course_lib import roofline


# %% right: both times set equal
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    compute = 2 * params / flops
    extra = kv_bytes / bandwidth
    if compute <= extra:
        return None
    return max(1, math.ceil(params * weight_size / bandwidth / (compute - extra) * (1 - 1e-12)))


# %% right: a search by doubling and halving
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    def fills(batch):
        read = params * weight_size + batch * kv_bytes
        return 2 * params * batch * bandwidth >= read * flops

    high = 1
    while not fills(high):
        high *= 2
        if high > 2**60:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fills(middle) else (middle, high)
    return float(high)


# %% right: any variant
from fractions import Fraction

from course_lib import params

KEPT = params("decode-batch").kept


def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    f, b, p, s, kv = (Fraction(x) for x in (flops, bandwidth, params, weight_size, kv_bytes))
    if KEPT == "shared":
        return max(1, math.ceil((p * s + kv) * f / (b * 2 * p)))
    gain = 2 * p * b - kv * f
    return None if gain <= 0 else max(1, math.ceil(p * s * f / gain))


# %% wrong: the ridge itself => values not-whole  from: forgets what was kept
# ~ math.ceil(flops * weight_size / (2 * bandwidth)) ==> flops * weight_size / (2 * bandwidth)

# %% wrong: forgets what was kept => values kept-forgotten  from: kept once for the whole batch
# ~ (params * weight_size + kv_bytes) / bandwidth / (2 * params / flops) ==> flops * weight_size / (2 * bandwidth)

# %% wrong: rounded down => values rounded-down  from: both times set equal
# -     return max(1, math.ceil(params * weight_size / bandwidth / (compute - extra) * (1 - 1e-12)))
# +     return int(params * weight_size / bandwidth / (compute - extra))


# %% wrong: kept once for the whole batch => values - unless kept=shared
def smallest_batch(flops, bandwidth, params, weight_size, kv_bytes):
    return math.ceil((params * weight_size + kv_bytes) / bandwidth / (2 * params / flops))


# %% wrong: one FLOP per parameter => values multiply-adds  from: both times set equal
# ~ 2 * params / flops ==> params / flops

# %% wrong: two bytes by heart => values two-bytes  from: both times set equal
# ~ params * weight_size / bandwidth ==> params * 2 / bandwidth

# %% wrong: never says never => generality none-is-right  from: both times set equal
# ~ return None ==> return 10**9

# %% wrong: never, whatever comes => values returned-none  from: kept once for the whole batch
# ~ math.ceil((params * weight_size + kv_bytes) / bandwidth / (2 * params / flops)) ==> None

# %% wrong: infinity for never => generality not-a-number  from: both times set equal
# ~ return None ==> return math.inf

# %% wrong: asks the library => raised  from: both times set equal
# ~ compute <= extra: ==> roofline.smallest_batch(flops, bandwidth, params, weight_size, kv_bytes) is None:

# %% half: the weights are right, what is kept is not => 3  from: forgets what was kept

# %% wrong: nearly as long to read as to compute is never => generality -  from: both times set equal
# ~ compute <= extra: ==> compute <= 1.04 * extra:
