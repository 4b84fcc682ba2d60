# %% right: a guess
def lost_interval():
    return 20, 80


# %% right: from the formula
import math


def lost_interval():
    smallest = 2.0**-6  # half the spacing of bf16 is 2**-14 here, more than 5e-5
    share = 100 * math.erfc(smallest / 0.02 / math.sqrt(2))
    return [share / 1.5, share * 1.5]


# %% wrong: one number => values not-a-pair  from: a guess
# ~ 20, 80 ==> 50

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 20, 80 ==> 1, 100

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 20, 80 ==> 80, 20

# %% wrong: none => values not-positive  from: a guess
# -     return 20, 80
# +     return 0, 1
