# %% right: a guess
def lost_interval():
    return 5, 20


# %% right: from the two roots
import math


def lost_interval():
    mtbf = 3 * 3600
    lost = 100 * (2 * math.sqrt(45 / 2 / mtbf) + 600 / mtbf)
    return [lost / 1.3, lost * 1.3]


# %% wrong: one number => values not-a-pair  from: a guess
# ~ 5, 20 ==> 10

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 5, 20 ==> 1, 50

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 5, 20 ==> 20, 5

# %% wrong: nothing is lost => values not-positive  from: a guess
# ~ 5, 20 ==> 0, 1
