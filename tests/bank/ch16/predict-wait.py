# %% right: far off, but committed
def growth():
    return 1.5, 6.0


# %% right: by formula
from course_lib import params


def growth():
    asked = params("predict-wait")
    factor = asked.high / (100 - asked.high) * (100 - asked.low) / asked.low
    return factor / 1.5, factor * 1.5


# %% wrong: too wide => values too-wide  from: far off, but committed
# ~ 1.5, 6.0 ==> 1, 100

# %% wrong: the ends are swapped => values reversed  from: far off, but committed
# ~ 1.5, 6.0 ==> 12, 6

# %% wrong: one number => values not-a-pair  from: far off, but committed
# ~ 1.5, 6 ==> 9

# %% wrong: nothing is committed to => values not-positive  from: far off, but committed
# ~ 1.5, 6.0 ==> 0, 0

# %% wrong: left as it is => not-answered  from: far off, but committed
# ~ return 1.5, 6.0 ==> raise NotImplementedError
