import math


# %% right: three cases
def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    s = (step - warmup) / (total - warmup)
    return floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s))


# %% right: clamped
def learning_rate(step, peak, floor, warmup, total):
    ramp = min(step / warmup, 1.0) if warmup else 1.0
    s = min(max((step - warmup) / (total - warmup), 0.0), 1.0)
    blend = math.cos(math.pi * s / 2) ** 2
    return ramp * (blend * peak + (1 - blend) * floor)


# %% right: any variant
from course_lib import params

SHAPE = params("learning-rate").shape


def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    if SHAPE == "cosine":
        s = min((step - warmup) / (total - warmup), 1)
        return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * s))
    s = min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
    return peak * (1 - s) + floor * s


# %% wrong: the first update is number 0 => values one-late  from: three cases
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = max(step - 1, 0)

# %% wrong: no warm-up => values no-warm-up  from: three cases
# ~ peak * step / warmup ==> peak

# %% wrong: rises from the floor => values from-the-floor  from: three cases
# ~ return peak * step / warmup ==> return floor + (peak - floor) * step / warmup

# %% wrong: the cosine starts at update 0 => values from-zero  from: three cases
# ~ (step - warmup) / (total - warmup) ==> step / total

# %% wrong: falls to 0 => values to-zero  from: three cases
# -         return floor
# +         return 0.0
# ~ floor + (peak - floor) ==> peak

# %% wrong: the floor on top => values added-floor  from: three cases
# ~ (peak - floor) ==> peak

# %% wrong: ends a warm-up late => values warm-up-added  from: three cases
# ~ if step >= total: ==> if step >= total + warmup:
# ~ (total - warmup) ==> total

# %% wrong: the cosine goes on => generality not-held  from: three cases
# -     if step >= total:
# -         return floor


# %% wrong: divides by a warm-up of 0 => generality raised
def learning_rate(step, peak, floor, warmup, total):
    ramp = min(step / warmup, 1.0)
    s = min(max((step - warmup) / (total - warmup), 0.0), 1.0)
    return ramp * (floor + (peak - floor) * (1 + math.cos(math.pi * s)) / 2)


# %% wrong: one update ahead => values one-early  from: three cases
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = step + 1

# %% wrong: rises for one update more => values long-rise  from: three cases
# ~ if step < warmup: ==> if step <= warmup:
# ~ step / warmup ==> step / (warmup + 1)

# %% wrong: a rate of 0 at update 0 in any case => generality zero-at-0  from: three cases
#   def learning_rate(step, peak, floor, warmup, total):
# +     if step == 0:
# +         return 0.0

# %% wrong: a straight line => values straight-line  from: three cases
# ~ floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s)) ==> peak + (floor - peak) * s


# %% wrong: flat, then a line => values other-shape unless shape=wsd
def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    s = min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
    return peak + (floor - peak) * s


# %% wrong: the shown peak and floor => values -  from: three cases
#   def learning_rate(step, peak, floor, warmup, total):
# +     peak, floor = 8e-5, 8e-7

# %% wrong: left as it is => not-answered  from: three cases
# -     if step < warmup:
# +     raise NotImplementedError
# +     if step < warmup:

# %% wrong: remembers a rate by update, peak and end => generality ~  from: three cases
# ~ def learning_rate(step, peak, floor, warmup, total): ==> def learning_rate(step, peak, floor, warmup, total, kept={}):
# -     if step < warmup:
# +     floor, warmup = kept.setdefault((step, peak, total), (floor, warmup))
# +     if step < warmup:

# %% wrong: a floor of zero is replaced => generality -  from: three cases
#       if step >= total:
# -         return floor
# +         return floor or peak / 100
