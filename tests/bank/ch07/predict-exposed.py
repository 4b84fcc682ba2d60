"""Answers to predict-exposed: an interval of a factor of four or less, and what is none."""


# %% right: from the two times
def exposed_interval():
    ring = 2 * 63 / 64 * 2 * 8e9 / 50e9
    backward = 4 * 8e9 * 2048 / 400e12
    return (ring - backward) / 1.8, (ring - backward) * 1.8


# %% right: far off, but an interval  from: one number believed
# ~ [0.466, 0.466] ==> 10, 30


# %% right: one number believed
def exposed_interval():
    return [0.466, 0.466]


# %% wrong: too wide => values too-wide  from: far off, but an interval
# ~ 10, 30 ==> 0.01, 100.0

# %% wrong: upside down => values reversed  from: far off, but an interval
# ~ 10, 30 ==> 1.0, 0.5

# %% wrong: nothing sticks out => values not-positive  from: far off, but an interval
# ~ 10, 30 ==> 0.0, 0.0

# %% wrong: one number => values not-a-pair  from: far off, but an interval
# ~ 10, 30 ==> 0.47
