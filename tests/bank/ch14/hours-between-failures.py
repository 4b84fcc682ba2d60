import math


# %% right: as written
def hours_between(failures, days, gpus, size):
    return days * 24 * gpus / failures / size


def chance(hours, between):
    return 1 - math.exp(-hours / between)


# %% right: by rates  from: as written
# ~ days * 24 * gpus / failures / size ==> 1 / (failures / (days * 24.0 * gpus) * size)
# ~ 1 - math.exp(-hours / between) ==> -math.expm1(-hours / between)

# %% wrong: for the size of the log => values same-size  from: as written
# ~ 24 * gpus / failures / size ==> 24 / failures

# %% wrong: in proportion => values upside-down  from: as written
# ~ gpus / failures / size ==> size / failures / gpus

# %% wrong: in days => values days  from: as written
# ~ 24 * gpus ==> gpus

# %% wrong: for one GPU => values one-gpu  from: as written
# ~ failures / size ==> failures

# %% wrong: whole hours => values rounded  from: as written
# ~ days * 24 * gpus / failures / size ==> round(days * 24 * gpus / failures / size, 3)

# %% wrong: the expected number => values expected-number  from: as written
# ~ 1 - math.exp(-hours / between) ==> hours / between

# %% wrong: the expected number, cut at 1 => values capped  from: as written
# ~ return 1 - math.exp(-hours / between) ==> return min(1, hours / between)

# %% wrong: nothing fails => values survives  from: as written
# ~ 1 - math ==> math

# %% wrong: a half-life => values power-of-two  from: as written
# ~ return 1 - math.exp(-hours / between) ==> return 1 - 2 ** (-hours / between)

# %% wrong: hour by hour => values hour-by-hour  from: as written
# ~ math.exp(-hours / between) ==> (1 - 1 / between) ** hours

# %% wrong: the example's numbers => values -  from: as written
# ~ days * 24 * gpus / failures / size ==> 54 * 24 * 16384 / 419 / size

# %% wrong: remembers a chance by its hours => values -  from: as written
# ~ def chance(hours, between): ==> def chance(hours, between, kept={}):
# ~ (-hours / between) ==> (-hours / kept.setdefault(hours, between))
