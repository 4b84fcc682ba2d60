import math

from course_grader.judging import Params, prediction
from course_lib.estimate import compute, facts
from course_lib.estimate.units import HOUR, WEEK, duration_text, number_text


def weeks_truth(params: Params) -> float:
    """Weeks of the run, with perfect scaling."""
    return compute.train_seconds(*(params[name] for name in ("params", "tokens", "flops", "mfu", "gpus"))) / WEEK


def _weeks_reveal(params: Params) -> str:
    weeks = weeks_truth(params)
    text = (
        f"With perfect scaling: {number_text(weeks)} weeks; at 100 % of the peak it would be "
        f"{number_text(weeks * params['mfu'])}, and one GPU alone would need "
        f"{duration_text(weeks * params['gpus'] * WEEK)}."
    )
    run = facts.run("Llama 3 70B")
    if math.isclose(params["params"], run.params, rel_tol=0.05) and params["tokens"] == run.tokens:
        hours = float(run.device_hours)
        reported = number_text(hours * HOUR / params["gpus"] / WEEK)
        text += f" Meta reports {number_text(hours)} GPU-hours for such a run, all stages: {reported} weeks."
    return text


JUDGING = prediction(
    unit="weeks",
    reveal=_weeks_reveal,
    truth=weeks_truth,
    why="Work is 6 × parameters × tokens, speed is GPUs × peak × MFU. One digit of each factor gives the length "
    "within a factor of two. That is enough to know whether to rent for a week or for a year.",
)

ANSWERS = r'''# %% right: worked
def weeks_interval() -> tuple[float, float]:
    """(low, high): the interval in which you expect the run's length in weeks, with high at most 4 × low."""
    work = 6 * 7e10 * 1.5e13  # about 6e24 FLOP
    speed = 1e3 * 1e15 * 0.4  # a thousand GPUs of about 1 PFLOP/s, at 40 %
    guess = work / speed / 6e5  # a week has about 6e5 seconds
    return guess / 1.8, guess * 1.8
# %% right: a list, exactly a factor of four, far off
# ~ guess / 1.8, guess * 1.8 ==> [1.5, 6.0]
# %% wrong: too wide => values too-wide
# ~ guess / 1.8, guess * 1.8 ==> 1, 1000
# %% wrong: turned round => values reversed
# ~ guess / 1.8, guess * 1.8 ==> guess * 1.8, guess / 1.8
# %% wrong: a point => values not-a-pair
# ~ guess / 1.8, guess * 1.8 ==> guess
# %% wrong: words => values not-numbers
# ~ guess / 1.8, guess * 1.8 ==> "twenty", "forty"
'''
