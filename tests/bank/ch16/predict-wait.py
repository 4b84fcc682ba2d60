# %% right: by formula
from course_lib import params


def growth():
    asked = params("predict-wait")
    low, high = asked.low / 100, asked.high / 100
    factor = high / (1 - high) * (1 - low) / low
    return factor / 1.5, factor * 1.5


# %% right: far off, but committed
def growth():
    return 1.5, 6.0


# %% wrong: too wide => values too-wide
def growth():
    return 1, 100


# %% wrong: the ends are swapped => values reversed
def growth():
    return 12, 6


# %% wrong: one number => values not-a-pair
def growth():
    return 9.0


# %% wrong: nothing is committed to => values not-positive
def growth():
    return 0, 0


# %% wrong: left as it is => not-answered
def growth():
    raise NotImplementedError
