# %% right: a guess
def dropped_interval():
    return 3, 12


# %% right: from the formula
from course_lib.notebook import params


def dropped_interval():
    asked = params("predict-drops")
    share = 100 * 0.4 / (asked.tokens / asked.experts) ** 0.5
    return [share / 1.5, share * 1.5]


# %% wrong: one number => values not-a-pair  from: a guess
# ~ 3, 12 ==> 5

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 3, 12 ==> 1, 50

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 3, 12 ==> 12, 3

# %% wrong: none is dropped => values not-positive  from: a guess
# ~ 3, 12 ==> 0, 1
