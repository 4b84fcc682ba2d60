# %% right: a guess
def lost_interval():
    return 20, 80


# %% right: wrong, as a list  from: a guess
# ~ 20, 80 ==> [0.5, 1]

# %% wrong: one number => values not-a-pair  from: a guess
# ~ 20, 80 ==> 50

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 20, 80 ==> 1, 100

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 20, 80 ==> 80, 20

# %% wrong: none => values not-positive  from: a guess
# ~ 20, 80 ==> 0, 1
