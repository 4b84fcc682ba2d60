# %% right: a factor of two either way
def busiest_over_mean():
    return 1.0, 3.0


# %% right: narrow, and far from the truth  from: a factor of two either way
# ~ 1.0, 3.0 ==> (100.0, 150.0)

# %% wrong: upside down => values reversed  from: a factor of two either way
# ~ 1.0, 3.0 ==> 3, 1

# %% wrong: too wide => values too-wide  from: a factor of two either way
# ~ 1.0, 3.0 ==> 1, 10

# %% wrong: from zero => values not-positive  from: a factor of two either way
# ~ 1.0, 3.0 ==> 0, 2

# %% wrong: left as it is => not-answered  from: a factor of two either way
# ~ return 1.0, 3.0 ==> raise NotImplementedError
