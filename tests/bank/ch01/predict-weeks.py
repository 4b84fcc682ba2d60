# %% right: a narrow guess
def weeks_interval():
    return 20, 40


# %% right: a list, exactly a factor of four, far off
def weeks_interval():
    guess = 3.0
    return [guess / 2, guess * 2]


# %% right: numpy
import numpy as np


def weeks_interval():
    return np.array([15.0, 45.0]).tolist()[0], np.float64(45)


# %% wrong: too wide => values too-wide
def weeks_interval():
    return 1, 1000


# %% wrong: turned round => values reversed
def weeks_interval():
    return 40, 20


# %% wrong: a point => values not-a-pair
def weeks_interval():
    return 26


# %% wrong: words => values not-numbers
def weeks_interval():
    return "twenty", "forty"


# %% wrong: infinite => values not-numbers
def weeks_interval():
    return 10, float("inf")


# %% wrong: from zero => values not-positive
def weeks_interval():
    return 0, 0


# %% wrong: below zero => values not-positive
def weeks_interval():
    return -40, -20


# %% wrong: untouched => not-answered
def weeks_interval():
    raise NotImplementedError
