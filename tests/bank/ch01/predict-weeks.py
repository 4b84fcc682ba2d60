# %% right: a narrow guess
def weeks_interval():
    return 20, 40


# %% right: a list, exactly a factor of four, far off
def weeks_interval():
    guess = 3.0
    return [guess / 2, guess * 2]


# %% right: numpy
import numpy as np


def weeks_interval():
    return np.array([15.0, 45.0]).tolist()[0], np.float64(45)


# %% wrong: too wide => values too-wide  from: a narrow guess
# ~ 20, 40 ==> 1, 1000

# %% wrong: turned round => values reversed  from: a narrow guess
# ~ 20, 40 ==> 40, 20

# %% wrong: a point => values not-a-pair  from: a narrow guess
# ~ 20, 40 ==> 26


# %% wrong: words => values not-numbers
def weeks_interval():
    return "twenty", "forty"
