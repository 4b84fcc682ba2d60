"""Judge of predict-goodput: prediction: what do failures cost?"""

from course_lib.exercises.ch14.judges.shared import best_interval, goodput
from course_lib.judging import Params
from course_lib.judging.prediction import prediction
from course_lib.units import HOUR, MINUTE


def lost_percent(params: Params) -> float:
    """Percent of the time that is lost at the best interval, restarts safe from failures."""
    mtbf = params["hours"] * HOUR
    return 100 * (
        1 - goodput("safe", best_interval(params["save"], mtbf), params["save"], params["restart"] * MINUTE, mtbf)
    )


JUDGING = prediction(
    "%",
    truth=lost_percent,
    reveal=lambda params: f"{lost_percent(params):.1f} % of the time is lost.",
    why="""At the best interval, saves and repeated work cost about √(save / 2M) each, and restarts cost restart / M. Shorter
saves and shorter restarts both help; a longer time between failures helps most.""",
)

ANSWERS = r"""# %% right: a guess
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
"""
