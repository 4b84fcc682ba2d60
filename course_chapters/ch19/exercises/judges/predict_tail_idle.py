from course_chapters.ch19.long_tail import exponential_idle
from course_grader.judging import Params
from course_grader.judging.prediction import prediction


def idle(params: Params) -> float:
    """The idle percentage of a synchronous batch."""
    return 100 * exponential_idle(params["gpus"])


JUDGING = prediction(
    "percent",
    truth=idle,
    reveal=lambda params: f"{idle(params):.0f} % of the GPUs' time is idle.",
    why="""The mean does not matter, and the number of GPUs hardly does: the longest of n exponential lengths is about
ln n + 0.58 times the mean. At 16 GPUs, more than two thirds of the time are idle already. Several rollouts on each GPU
change this less than one hopes, because a GPU with one rollout left decodes hardly faster.""",
)

ANSWERS = r'''# %% right: worked
def idle_percent() -> tuple[float, float]:
    """The idle percentage that you believe in: (low, high), high at most 4 × low."""
    gpus = params("predict-tail-idle").gpus
    longest = sum(1 / place for place in range(1, gpus + 1))
    percent = 100 * (1 - 1 / longest)
    return percent - 10, percent + 10
# %% right: far off, but committed
# ~ return percent - 10, percent + 10 ==> return 5, 20
# %% wrong: too wide => values too-wide
# ~ return percent - 10, percent + 10 ==> return 1, 99
# %% wrong: the ends are swapped => values reversed
# ~ return percent - 10, percent + 10 ==> return 90, 60
# %% wrong: one number => values not-a-pair
# ~ return percent - 10, percent + 10 ==> return 80
# %% wrong: nothing is committed to => values not-positive
# ~ return percent - 10, percent + 10 ==> return 0, 0
'''
