from course_grader.judging import Params, prediction
from course_lib.parallel.planner.bubbles import idle


def idle_days(params: Params) -> float:
    """GPU-days lost to the bubble."""
    return params["gpus"] * params["days"] * idle(params["stages"], params["microbatches"])


JUDGING = prediction(
    unit="GPU-days",
    truth=idle_days,
    reveal=lambda params: (
        f"{idle_days(params):,.0f} GPU-days: a rank is idle in {params['stages'] - 1} of "
        f"{params['microbatches']} + {params['stages'] - 1} slots."
    ),
    why="Each rank idles (p − 1)/(m + p − 1) of the time: the first ranks at the end, the last ones at the start.",
)

ANSWERS = r'''# %% right: worked
def idle_interval() -> tuple[float, float]:
    """An interval for the idle GPU-days: (low, high), with high at most 4 × low."""
    asked = params("predict-idle")
    guess = asked.gpus * asked.days * (asked.stages - 1) / (asked.microbatches + asked.stages - 1)
    return guess / 1.8, guess * 1.8
# %% right: narrow, and far from the truth
# ~ guess / 1.8, guess * 1.8 ==> 100.0, 150.0
# %% right: a list
# ~ guess / 1.8, guess * 1.8 ==> [5e3, 6e3]
# %% wrong: too wide => values too-wide
# ~ guess / 1.8, guess * 1.8 ==> 100, 10000
# %% wrong: one number => values not-a-pair
# ~ guess / 1.8, guess * 1.8 ==> guess
# %% wrong: upside down => values reversed
# ~ guess / 1.8, guess * 1.8 ==> guess * 1.8, guess / 1.8
# %% wrong: from zero => values not-positive
# ~ guess / 1.8, guess ==> 0, guess
'''
