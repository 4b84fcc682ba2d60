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


# %% wrong: too wide => values too-wide  from: around the memory's rate
# ~ 100, 400 ==> 10, 1000
