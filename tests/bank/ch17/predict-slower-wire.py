# %% right: a guess
def slower_interval():
    return 2, 8


# %% right: from a roofline
def slower_interval():
    compute = 6 * 8e9 * 4096 / 500e12
    traffic = 3 * 2 * 8e9 / 40e9
    ratio = max(compute, 8 * traffic) / max(compute, traffic)
    return [ratio / 2, ratio * 1.5]


# %% wrong: one number => values not-a-pair  from: a guess
# ~ 2, 8 ==> 4

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 2 ==> 1

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 2, 8 ==> 8, 2

# %% wrong: none => values not-positive  from: a guess
# ~ return 2, 8 ==> return 0, 8
