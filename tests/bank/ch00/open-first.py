# %% right: numbers
def open_first():
    return [2, 8, 5, 10, 6, 14]


# %% right: texts in a tuple  from: numbers
# ~ [2, 8, 5, 10, 6, 14] ==> "02", "08", "05", "10", "06", "14"

# %% right: any variant
from course_lib import params

CHAPTERS = {
    "first optimizer step": 2,
    "same optimizer state": 8,
    "became NaN": 5,
    "split between its layers": 10,
    "hang": 6,
    "started again": 14,
}


def open_first():
    lines = params("open-first").symptoms.splitlines()
    return [next(number for words, number in CHAPTERS.items() if words in line) for line in lines]


# %% wrong: memory for everything => values one-for-all  from: numbers
# ~ [2, 8, 5, 10, 6, 14] ==> [2] * 6

# %% wrong: three walls first, always => values other-chapter  from: numbers
# ~ 2, 8, 5, 10, 6, 14 ==> 1, 7, 4, 9, 15, 13

# %% wrong: names for numbers => values no-chapter  from: numbers
# ~ 2, 8, 5, 10, 6, 14 ==> "memory", "sharding", "precision", "pipeline", "collectives", "faults"

# %% wrong: chapters that do not exist => values no-chapter  from: numbers
# ~ 2, 8, 5, 10, 6, 14 ==> 20, 80, -5, 1.5, True, None

# %% wrong: five of six => values wrong-shape  from: numbers
# ~ [2, 8, 5, 10, 6, 14] ==> [2, 8, 5, 10, 6]

# %% wrong: the first alone => values wrong-shape  from: numbers
# ~ [2, 8, 5, 10, 6, 14] ==> 2

# %% wrong: untouched => not-answered  from: numbers
# ~ return [2, 8, 5, 10, 6, 14] ==> raise NotImplementedError

# %% half: memory and sharding exchanged => 2  from: numbers
# -     return [2, 8, 5, 10, 6, 14]
# +     return [8, 2, 5, 10, 6, 14]
