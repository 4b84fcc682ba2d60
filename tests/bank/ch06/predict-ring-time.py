"""Answers to predict-ring-time: committed intervals, and what is none."""


# %% right: a narrow guess, near the truth
def ring_seconds_interval():
    return 2.5, 3.0


# %% right: wide, and far off; committing is what counts
def ring_seconds_interval():
    return [1e-3, 4e-3]


# %% right: one value
def ring_seconds_interval():
    return (7, 7)


# %% wrong: too wide => values too-wide
def ring_seconds_interval():
    return 0.1, 10


# %% wrong: the ends exchanged => values reversed
def ring_seconds_interval():
    return 4, 2


# %% wrong: a single number => values not-a-pair
def ring_seconds_interval():
    return 2.8


# %% wrong: not positive => values not-positive
def ring_seconds_interval():
    return 0, 3


# %% wrong: as text => values not-numbers
def ring_seconds_interval():
    return "2 s", "4 s"


# %% wrong: not a number => values not-numbers
def ring_seconds_interval():
    return float("nan"), float("nan")


# %% wrong: left as it is => not-answered
def ring_seconds_interval():
    raise NotImplementedError
