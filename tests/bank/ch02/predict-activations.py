# %% right: an interval
def activations_interval():
    return 120, 300


# %% right: from a count of tensors
def activations_interval():
    each = 8192 * 80 * 8192 * 2 / 1e9
    return [10 * each, 30 * each]


# %% right: far off, but committed
def activations_interval():
    return (1.0, 4.0)


# %% wrong: one number => values not-a-pair
def activations_interval():
    return 200


# %% wrong: too wide => values too-wide
def activations_interval():
    return 1, 1000


# %% wrong: turned round => values reversed
def activations_interval():
    return 300, 100


# %% wrong: nothing at the lower end => values not-positive
def activations_interval():
    return 0, 100


# %% wrong: infinity => values not-numbers
def activations_interval():
    return 100, float("inf")


# %% wrong: words => values not-numbers
def activations_interval():
    return "100 GB", "200 GB"


# %% wrong: untouched => not-answered
def activations_interval():
    raise NotImplementedError
