"""Judge of predict-weeks: before you compute: how many weeks?"""

import math

from course_lib import facts
from course_lib.judging import Params, prediction
from course_lib.judging.draws import days_alone
from course_lib.units import DAY, HOUR, WEEK, duration_text, number_text


def weeks_truth(params: Params) -> float:
    """Weeks of the run, with perfect scaling."""
    alone = days_alone(params["params"], params["tokens"], params["flops"], params["mfu"]) * DAY
    return alone / params["gpus"] / WEEK


def _weeks_reveal(params: Params) -> str:
    weeks = weeks_truth(params)
    text = (
        f"With perfect scaling: {number_text(weeks)} weeks; at 100 % of the peak it would be "
        f"{number_text(weeks * params['mfu'])}, and one GPU alone would need {duration_text(weeks * params['gpus'] * WEEK)}."
    )
    run = facts.run("Llama 3 70B")
    if math.isclose(params["params"], run.params, rel_tol=0.05) and params["tokens"] == run.tokens:
        hours = float(run.device_hours)
        weeks = number_text(hours * HOUR / params["gpus"] / WEEK)
        text += f" Meta reports {number_text(hours)} GPU-hours for such a run, all stages: {weeks} weeks."
    return text


JUDGING = prediction(
    unit="weeks",
    reveal=_weeks_reveal,
    truth=weeks_truth,
    why="Work is 6 × parameters × tokens, speed is GPUs × peak × MFU. One digit of each factor gives the length within a "
    "factor of two. That is enough to know whether to rent for a week or for a year.",
)

ANSWERS = r"""# %% right: a narrow guess
def weeks_interval():
    return 20, 40


# %% right: a list, exactly a factor of four, far off  from: a narrow guess
# ~ 20, 40 ==> [1.5, 6.0]

# %% wrong: too wide => values too-wide  from: a narrow guess
# ~ 20, 40 ==> 1, 1000

# %% wrong: turned round => values reversed  from: a narrow guess
# ~ 20, 40 ==> 40, 20

# %% wrong: a point => values not-a-pair  from: a narrow guess
# ~ 20, 40 ==> 26


# %% wrong: words => values not-numbers  from: a narrow guess
# ~ 20, 40 ==> "twenty", "forty"
"""
