# %% right: a guess
def swapped_interval():
    return 3, 9


# %% right: from the bytes
def swapped_interval():
    tp = 4 * 80 * 32_768 * 8192
    dp = 70e9 / 8
    ratio = (tp / 50 + dp / 450) / (tp / 450 + dp / 50)
    return [ratio / 1.5, ratio * 1.5]


# %% wrong: one number => values not-a-pair  from: a guess
# ~ 3, 9 ==> 9

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 3 ==> 1

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 3, 9 ==> 9, 3

# %% wrong: none => values not-positive  from: a guess
# ~ 3 ==> 0
