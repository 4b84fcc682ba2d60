from course_chapters.ch20.health_checks import healthy_share
from course_grader.judging import Params
from course_grader.judging.prediction import prediction


def healthy(params: Params) -> float:
    """The percentage of the rejected nodes that are healthy."""
    return 100 * healthy_share(params["false_alarm"], params["detection"], params["share"])


JUDGING = prediction(
    "percent",
    truth=healthy,
    reveal=lambda params: f"{healthy(params):.0f} % of the rejected nodes are healthy.",
    why="""There are so many healthy nodes that a small share of them outnumbers nearly all of the weak ones. The share
of weak nodes, the base rate, decides as much as the quality of the check. So a node that fails is measured again, and
is not sent to repair at once.""",
)

ANSWERS = r'''from course_lib import params


# %% right: worked
def healthy_percent() -> tuple[float, float]:
    """The percentage that you believe in: (low, high), high at most 4 × low."""
    ### BEGIN SOLUTION
    p = params("predict-rejected")
    alarms, found = (1 - p.share) * p.false_alarm, p.share * p.detection
    percent = 100 * alarms / (alarms + found)
    return percent - 5, percent + 5
    ### END SOLUTION

# %% right: far off, but committed
# ~ return percent - 5, percent + 5 ==> return 2, 8
# %% wrong: too wide => values too-wide
# ~ return percent - 5, percent + 5 ==> return 1, 99
# %% wrong: the ends are swapped => values reversed
# ~ return percent - 5, percent + 5 ==> return 90, 40
# %% wrong: one number => values not-a-pair
# ~ return percent - 5, percent + 5 ==> return 70
# %% wrong: nothing is committed to => values not-positive
# ~ return percent - 5, percent + 5 ==> return 0, 0
# %% wrong: left as it is => not-answered
# ~ p = params ==> raise NotImplementedError; p = params
'''
