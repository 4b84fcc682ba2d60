# %% right: around the formula
def tp_interval():
    layers, hidden, tokens, ranks, bandwidth = 80, 8192, 8192, 8, 50e9
    seconds = layers * 4 * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth
    return seconds / 2, seconds * 2


# %% right: a guess, and wrong
def tp_interval():
    return [1e-3, 4e-3]


# %% wrong: as wide as can be => values too-wide  from: a guess, and wrong
# ~ [1e-3, 4e-3] ==> 1e-9, 1e9

# %% wrong: one number => values not-a-pair  from: a guess, and wrong
# ~ [1e-3, 4e-3] ==> 1.5

# %% wrong: ends exchanged => values reversed  from: a guess, and wrong
# ~ [1e-3, 4e-3] ==> 2.0, 1.0

# %% wrong: from zero => values not-positive  from: a guess, and wrong
# ~ [1e-3, 4e-3] ==> 0.0, 1.0
