import math


# %% right: a rise, then a cosine
def learning_rate(step, peak, floor, warmup, total):
    if step < warmup:
        return peak * step / warmup
    s = min((step - warmup) / (total - warmup), 1)
    return floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s))


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


# %% wrong: the first update is number 0 => values one-late  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = max(step - 1, 0)

# %% wrong: no warm-up => values no-warm-up  from: a rise, then a cosine
# ~ peak * step / warmup ==> peak

# %% wrong: rises from the floor => values from-the-floor  from: a rise, then a cosine
# ~ return peak * step / warmup ==> return floor + (peak - floor) * step / warmup

# %% wrong: the cosine starts at update 0 => values from-zero  from: a rise, then a cosine
# ~ (step - warmup) / (total - warmup) ==> step / total

# %% wrong: falls to 0 => values to-zero  from: a rise, then a cosine
# ~ floor + (peak - floor) ==> peak

# %% wrong: the floor on top => values added-floor  from: a rise, then a cosine
# ~ (peak - floor) ==> peak

# %% wrong: ends a warm-up late => values warm-up-added  from: a rise, then a cosine
# ~ (total - warmup) ==> total

# %% wrong: the cosine goes on => generality not-held  from: a rise, then a cosine
# ~ min((step - warmup) / (total - warmup), 1) ==> (step - warmup) / (total - warmup)

# %% wrong: divides by a warm-up of 0 => generality raised  from: a rise, then a cosine
# ~ step < warmup ==> step / warmup < 1

# %% wrong: one update ahead => values one-early  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     step = step + 1

# %% wrong: rises for one update more => values long-rise  from: a rise, then a cosine
# ~ step < warmup ==> step <= warmup
# ~ step / warmup ==> step / (warmup + 1)

# %% wrong: a rate of 0 at update 0 in any case => generality zero-at-0  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     if step == 0:
# +         return 0.0

# %% wrong: a straight line => values straight-line  from: a rise, then a cosine
# ~ floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s)) ==> peak + (floor - peak) * s


# %% wrong: flat, then a line => values other-shape unless shape=wsd  from: a rise, then a cosine
# ~ min((step - warmup) / (total - warmup), 1) ==> min(max((step - 0.8 * total) / (0.2 * total), 0), 1)
# ~ floor + (peak - floor) / 2 * (1 + math.cos(math.pi * s)) ==> peak + (floor - peak) * s

# %% wrong: the shown peak and floor => values -  from: a rise, then a cosine
#   def learning_rate(step, peak, floor, warmup, total):
# +     peak, floor = 8e-5, 8e-7

# %% wrong: left as it is => not-answered  from: a rise, then a cosine
# ~ if step < warmup: ==> raise NotImplementedError
# -         return peak * step / warmup

# %% wrong: remembers a rate by update, peak and end => generality ~  from: a rise, then a cosine
# ~ def learning_rate(step, peak, floor, warmup, total): ==> def learning_rate(step, peak, floor, warmup, total, kept={}):
# -     if step < warmup:
# +     floor, warmup = kept.setdefault((step, peak, total), (floor, warmup))
# +     if step < warmup:

# %% wrong: a floor of zero is replaced => generality -  from: a rise, then a cosine
#           return peak * step / warmup
# +     if step >= total:
# +         return floor or peak / 100
