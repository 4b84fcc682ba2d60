# %% right: from a floor to four times it
def step_interval():
    floor = 6 * 932_112 * 2048 / 4 / 1e11
    return floor, 4 * floor


# %% right: far off, and committed
def step_interval():
    return [10, 40]


# %% wrong: too wide => values too-wide  from: far off, and committed
# ~ [10, 40] ==> 0.01, 1
