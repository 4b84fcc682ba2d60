"""Answers to predict-ring-time: committed intervals, and what is none."""


# %% right: a narrow guess, near the truth
def ring_seconds_interval():
    return 2.5, 3.0


# %% right: wide, and far off; committing is what counts  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> [1e-3, 4e-3]

# %% right: one value  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> (7, 7)

# %% wrong: too wide => values too-wide  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 0.1, 10

# %% wrong: the ends exchanged => values reversed  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 4, 2

# %% wrong: a single number => values not-a-pair  from: a narrow guess, near the truth
# ~ 5, 3.0 ==> 8

# %% wrong: not positive => values not-positive  from: a narrow guess, near the truth
# ~ 2.5, 3.0 ==> 0, 3
