from course_grader.judging import Params, Worked
from course_grader.judging.prediction import prediction
from course_lib.estimate.units import HOUR, MINUTE

goodput, best_interval = Worked("checkpoint-interval")[0], Worked("checkpoint-interval")[1]


def lost_percent(params: Params) -> float:
    """Percent of the time that is lost at the best interval, restarts safe from failures."""
    save, mtbf = params["save"], params["hours"] * HOUR
    return 100 * (1 - goodput(best_interval(save, mtbf), save, params["restart"] * MINUTE, mtbf))


JUDGING = prediction(
    "%",
    truth=lost_percent,
    reveal=lambda params: f"{lost_percent(params):.1f} % of the time is lost.",
    why="""At the best interval, saves and repeated work cost about √(save / 2M) each, and restarts cost restart / M.
Shorter saves and shorter restarts both help; a longer time between failures helps most.""",
)

ANSWERS = r'''# %% right: worked
def lost_interval() -> tuple[float, float]:
    """Percent of the time that you believe is lost: (low, high), high at most 4 × low."""
    asked = params("predict-goodput")
    between = asked.hours * 3600
    lost = 100 * (2 * math.sqrt(asked.save / (2 * between)) + asked.restart * 60 / between)
    return lost / 1.5, lost * 1.5
# %% right: a guess
def lost_interval():
    return [5, 20]
'''
