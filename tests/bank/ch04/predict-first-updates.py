# %% right: computed
def largest_update():
    sizes = [(1 - 0.9**t) / (1 - 0.999**t) ** 0.5 for t in range(1, 101)]
    return max(sizes) / 1.5, max(sizes) * 1.5


# %% right: narrow, and far from the truth
def largest_update():
    return (0.9, 1.1)


# %% right: a list
def largest_update():
    return [1, 4]


# %% wrong: one number => values not-a-pair
def largest_update():
    return 3.2


# %% wrong: too wide => values too-wide
def largest_update():
    return 1, 10


# %% wrong: upside down => values reversed
def largest_update():
    return 4, 2


# %% wrong: from zero => values not-positive
def largest_update():
    return 0, 1


# %% wrong: left as it is => not-answered
def largest_update():
    raise NotImplementedError
