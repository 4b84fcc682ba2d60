# %% right: from a floor to four times it
def step_interval():
    floor = 6 * 932_112 * 2048 / 4 / 1e11
    return floor, 4 * floor


# %% right: far off, and committed
def step_interval():
    return [10, 40]


# %% wrong: too wide => values too-wide  from: far off, and committed
# ~ [10, 40] ==> 0.01, 1

# %% wrong: turned round => values reversed  from: far off, and committed
# ~ [10, 40] ==> 0.2, 0.1

# %% wrong: one number => values not-a-pair  from: far off, and committed
# ~ [10, 40] ==> 0.1


# %% wrong: from zero => values not-positive
def step_interval():
    return 0, 0.3
