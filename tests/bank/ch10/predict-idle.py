# %% right: a factor of two either way
def idle_interval():
    return 3000, 12000


# %% right: narrow, and far from the truth  from: a factor of two either way
# ~ 3000, 12000 ==> (100.0, 150.0)

# %% right: a list  from: a factor of two either way
# ~ 3000, 12000 ==> [5e3, 6e3]

# %% wrong: too wide => values too-wide  from: a factor of two either way
# ~ 3000, 12000 ==> 100, 10000
