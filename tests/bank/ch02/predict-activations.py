# %% right: an interval
def activations_interval():
    return 120, 300


# %% right: from a count of tensors
def activations_interval():
    each = 8192 * 80 * 8192 * 2 / 1e9
    return [10 * each, 30 * each]


# %% right: far off, but committed  from: an interval
# ~ 120, 300 ==> (1.0, 4.0)

# %% wrong: too wide => values too-wide  from: an interval
# ~ 120, 300 ==> 1, 1000

# %% wrong: one number => values not-a-pair  from: an interval
# ~ 120, 300 ==> 200

# %% wrong: turned round => values reversed  from: an interval
# ~ 120, 300 ==> 300, 100

# %% wrong: nothing at the lower end => values not-positive  from: an interval
# ~ 120, 300 ==> 0, 100
