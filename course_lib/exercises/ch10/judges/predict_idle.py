"""Judge of predict-idle: prediction: idle GPU-days."""

from course_lib.exercises.ch10.judges.shared import share
from course_lib.judging import Params, prediction


def idle_days(params: Params) -> float:
    """GPU-days lost to the bubble."""
    return params["gpus"] * params["days"] * share("all", params["stages"], params["microbatches"])


JUDGING = prediction(
    unit="GPU-days",
    truth=idle_days,
    reveal=lambda params: (
        f"{idle_days(params):,.0f} GPU-days: a rank is idle in {params['stages'] - 1} of "
        f"{params['microbatches']} + {params['stages'] - 1} slots."
    ),
    why="Each rank idles (p − 1)/(m + p − 1) of the time: the first ranks at the end, the last ones at the start.",
)

ANSWERS = r"""# %% right: a factor of two either way
def idle_interval():
    return 3000, 12000


# %% right: narrow, and far from the truth  from: a factor of two either way
# ~ 3000, 12000 ==> (100.0, 150.0)

# %% right: a list  from: a factor of two either way
# ~ 3000, 12000 ==> [5e3, 6e3]

# %% wrong: too wide => values too-wide  from: a factor of two either way
# ~ 3000, 12000 ==> 100, 10000

# %% wrong: one number => values not-a-pair  from: a factor of two either way
# ~ 3000, 12000 ==> 6000

# %% wrong: upside down => values reversed  from: a factor of two either way
# ~ 3000, 12000 ==> 9000, 3000


# %% wrong: from zero => values not-positive
def idle_interval():
    return 0, 5000
"""
