import math


# %% right: by formula
def bubble(stages, microbatches):
    return (stages - 1) / (microbatches + stages - 1)


def microbatches_for(stages, most):
    return max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9))


# %% right: by trying
def bubble(stages, microbatches):
    slots = microbatches + stages - 1
    return 1 - microbatches / slots


def microbatches_for(stages, most):
    count = 1
    while (stages - 1) / (count + stages - 1) > most + 1e-12:
        count += 1
    return count


# %% right: any variant  from: by trying
# - def bubble(stages, microbatches):
# + from course_lib import params
# + VARIANT = params("pipeline-bubble")
# + def bubble(stages, microbatches):
# -     slots = microbatches + stages - 1
# -     return 1 - microbatches / slots
# +     return (stages - 1) / (microbatches + (stages - 1 if VARIANT.convention == "all" else 0))
# ~ (stages - 1) / (count + stages - 1) ==> bubble(stages, count)

# %% wrong: over working time => values other-convention unless convention=work  from: by formula
# ~ (microbatches + stages - 1) ==> microbatches
# ~ (stages - 1) * (1 - most) / most - 1e-9 ==> (stages - 1) / most - 1e-9

# %% wrong: the naive pipeline's => values naive  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> 1 - 1 / stages

# %% wrong: p slots of waiting => values off-by-one  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> stages / (microbatches + stages)
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> math.ceil(stages * (1 - most) / most - 1e-9)

# %% wrong: one slot too many in all => values one-less  from: by formula
# ~ (microbatches + stages - 1) ==> (microbatches + stages)

# %% wrong: the part that works => values useful-part  from: by formula
# ~ return (stages - 1) / (microbatches + stages - 1) ==> return microbatches / (microbatches + stages - 1)

# %% wrong: per cent => values percent  from: by formula
# ~ return (stages - 1) / (microbatches + stages - 1) ==> return 100 * (stages - 1) / (microbatches + stages - 1)

# %% wrong: rounds down => generality rounded-down  from: by formula
# ~ 1, math.ceil((stages - 1) * (1 - most) / most - 1e-9) ==> 1, math.floor((stages - 1) * (1 - most) / most + 1e-9)

# %% wrong: no micro-batch at all for one stage => generality below-one  from: by formula
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> math.ceil((stages - 1) * (1 - most) / most - 1e-9)

# %% wrong: the example's numbers => values too-few  from: by formula
# ~ (stages - 1) / (microbatches + stages - 1) ==> 3 / 11
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> 27

# %% wrong: a rule of thumb => values -  from: by formula
# ~ max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9)) ==> 4 * stages

# %% wrong: strictly below => values not-fewest  from: by formula
# ~ math.ceil((stages - 1) * (1 - most) / most - 1e-9) ==> math.floor((stages - 1) * (1 - most) / most + 1e-9) + 1

# %% wrong: a percent too much is allowed => generality rounded-down  from: by formula
# ~ - 1e-9 ==> - 1e-2

# %% wrong: a thousand micro-batches at most => generality too-few  from: by trying
# ~ > most + 1e-12: ==> > most + 1e-12 and count < 1000:

# %% wrong: a bubble of half at most => generality not-fewest  from: by formula
# ~ (1 - most) / most ==> (1 - min(most, 0.5)) / min(most, 0.5)

# %% half: no inverse => 1.6  from: by formula
# -     return max(1, math.ceil((stages - 1) * (1 - most) / most - 1e-9))
# +     return None
