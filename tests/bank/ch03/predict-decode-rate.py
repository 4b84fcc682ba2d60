# %% right: around the memory's rate
def tokens_interval():
    return 100, 400


# %% right: far off, exactly a factor of four, a list
def tokens_interval():
    guess = 20_000.0
    return [guess / 2, guess * 2]


# %% right: numpy, a point
import numpy as np


def tokens_interval():
    return np.float64(208), np.float64(208)


# %% wrong: too wide => values too-wide
def tokens_interval():
    return 10, 1000


# %% wrong: turned round => values reversed
def tokens_interval():
    return 400, 100


# %% wrong: one number => values not-a-pair
def tokens_interval():
    return 208


# %% wrong: words => values not-numbers
def tokens_interval():
    return "about 200", "400"


# %% wrong: not a number => values not-numbers
def tokens_interval():
    return float("nan"), 400


# %% wrong: nothing at all => values not-positive
def tokens_interval():
    return 0, 0


# %% wrong: untouched => not-answered
def tokens_interval():
    raise NotImplementedError
