# %% right: a factor of two either way
def busiest_over_mean():
    return 1.0, 3.0


# %% right: narrow, and far from the truth
def busiest_over_mean():
    return (100.0, 150.0)


# %% right: a list
def busiest_over_mean():
    return [1.5, 2.0]


# %% wrong: one number => values not-a-pair
def busiest_over_mean():
    return 2


# %% wrong: upside down => values reversed
def busiest_over_mean():
    return 3, 1


# %% wrong: too wide => values too-wide
def busiest_over_mean():
    return 1, 10


# %% wrong: from zero => values not-positive
def busiest_over_mean():
    return 0, 2


# %% wrong: None => values not-a-pair
def busiest_over_mean():
    return None


# %% wrong: left as it is => not-answered
def busiest_over_mean():
    raise NotImplementedError
