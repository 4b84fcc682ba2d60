# %% right: an interval around the truth
def sending_interval():
    return 30, 90


# %% right: far off, and committed  from: an interval around the truth
# ~ 30, 90 ==> [0.5, 2.0]


# %% wrong: too wide => values too-wide  from: an interval around the truth
# ~ 30, 90 ==> 1, 100

# %% wrong: turned round => values reversed  from: an interval around the truth
# ~ 30, 90 ==> 60, 30

# %% wrong: one number => values not-a-pair  from: an interval around the truth
# ~ 30, 90 ==> 48.6

# %% wrong: from zero => values not-positive  from: an interval around the truth
# ~ 30, 90 ==> 0, 50
