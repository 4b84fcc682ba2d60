from course_lib import diagnosis

KEY = (
    "gradients never freed",
    "experts' gradients too large",
    "uneven stages",
    "no overlap",
    "missing rank",
    "sum instead of mean",
    "slow loader on one rank",
    "tensor group across servers",
    "bad batch",
    "slow GPU",
    "blocking checkpoint",
    "copies without a sum",
)


# %% right: by eye
def diagnoses():
    return dict(enumerate(KEY, start=1))


# %% right: any variant
from course_lib import params


def diagnoses():
    names = diagnosis.drawn(params("diagnosis-exam").seed, len(KEY))
    return {run: name.upper() for run, name in enumerate(names, start=1)}


# %% wrong: one fault for all => values named-twice  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> dict.fromkeys(range(1, 13), "slow GPU")

# %% wrong: two faults in turn => values named-twice  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> {run: "missing rank" if run % 2 else "bad batch" for run in range(1, 13)}

# %% wrong: counted from zero => values missing  from: by eye
# ~ (enumerate(KEY, start=1)) ==> (enumerate(KEY))

# %% wrong: other faults of the same families => values right-family  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> {**dict(enumerate(KEY, start=1)), 1: "graph kept", 10: "overheating GPU"}

# %% wrong: families => values no-such-fault  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> {run: diagnosis.FAULTS[name].family for run, name in enumerate(KEY, start=1)}

# %% wrong: a list => values no-dictionary  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> list(KEY)

# %% wrong: the next run's fault => values -  from: by eye
# ~ KEY, ==> KEY[1:] + KEY[:1],


# %% half: two runs left out => 10  from: by eye
# ~ dict(enumerate(KEY, start=1)) ==> {run: name for run, name in enumerate(KEY, start=1) if run not in (3, 7)}
