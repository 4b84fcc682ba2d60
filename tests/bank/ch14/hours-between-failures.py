import math


# %% right: as written
def hours_between(failures, days, gpus, size):
    return days * 24 * gpus / failures / size


def chance(hours, between):
    return 1 - math.exp(-hours / between)


# %% right: by rates
def hours_between(failures, days, gpus, size):
    rate = failures / (days * 24.0 * gpus)  # of one GPU
    return 1 / (rate * size)


def chance(hours, between):
    return -math.expm1(-hours / between)


# %% wrong: for the size of the log => values same-size  from: as written
# -     return days * 24 * gpus / failures / size
# +     return days * 24 / failures

# %% wrong: in proportion => values upside-down  from: as written
# -     return days * 24 * gpus / failures / size
# +     return days * 24 * size / failures / gpus

# %% wrong: in days => values days  from: as written
# -     return days * 24 * gpus / failures / size
# +     return days * gpus / failures / size

# %% wrong: for one GPU => values one-gpu  from: as written
# -     return days * 24 * gpus / failures / size
# +     return days * 24 * gpus / failures

# %% wrong: whole hours => values rounded  from: as written
# -     return days * 24 * gpus / failures / size
# +     return round(days * 24 * gpus / failures / size, 3)

# %% wrong: the expected number => values expected-number  from: as written
# -     return 1 - math.exp(-hours / between)
# +     return hours / between

# %% wrong: the expected number, cut at 1 => values capped  from: as written
# -     return 1 - math.exp(-hours / between)
# +     return min(1, hours / between)

# %% wrong: nothing fails => values survives  from: as written
# -     return 1 - math.exp(-hours / between)
# +     return math.exp(-hours / between)

# %% wrong: a half-life => values power-of-two  from: as written
# -     return 1 - math.exp(-hours / between)
# +     return 1 - 2 ** (-hours / between)

# %% wrong: hour by hour => values hour-by-hour  from: as written
# -     return 1 - math.exp(-hours / between)
# +     return 1 - (1 - 1 / between) ** hours

# %% wrong: the example's numbers => values -  from: as written
# -     return days * 24 * gpus / failures / size
# +     return 54 * 24 * 16384 / 419 / size
