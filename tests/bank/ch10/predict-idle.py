# %% right: a factor of two either way
def idle_interval():
    return 3000, 12000


# %% right: narrow, and far from the truth
def idle_interval():
    return (100.0, 150.0)


# %% right: a list
def idle_interval():
    return [5e3, 6e3]


# %% wrong: one number => values not-a-pair
def idle_interval():
    return 6000


# %% wrong: upside down => values reversed
def idle_interval():
    return 9000, 3000


# %% wrong: too wide => values too-wide
def idle_interval():
    return 100, 10000


# %% wrong: from zero => values not-positive
def idle_interval():
    return 0, 5000


# %% wrong: None => values not-a-pair
def idle_interval():
    return None


# %% wrong: left as it is => not-answered
def idle_interval():
    raise NotImplementedError
