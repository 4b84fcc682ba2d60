# %% right: a factor of two either way
def idle_interval():
    return 3000, 12000


# %% right: narrow, and far from the truth  from: a factor of two either way
# ~ 3000, 12000 ==> (100.0, 150.0)

# %% right: a list  from: a factor of two either way
# ~ 3000, 12000 ==> [5e3, 6e3]

# %% wrong: too wide => values too-wide  from: a factor of two either way
# ~ 3000, 12000 ==> 100, 10000

# %% wrong: one number => values not-a-pair  from: a factor of two either way
# ~ 3000, 12000 ==> 6000

# %% wrong: upside down => values reversed  from: a factor of two either way
# ~ 3000, 12000 ==> 9000, 3000


# %% wrong: from zero => values not-positive
def idle_interval():
    return 0, 5000
