from course_grader.judging import Params, prediction
from course_lib.parallel.expert.costs import drop_share


def dropped_percent(params: Params) -> float:
    """The mean percentage of tokens beyond the mean count of their expert, with one expert a token and factor 1."""
    return 100 * drop_share(params["tokens"], params["experts"], 1, 1.0)


JUDGING = prediction(
    unit="%",
    truth=dropped_percent,
    reveal=lambda params: f"{dropped_percent(params):.3g} %, although every expert is equally likely.",
    why="Counts vary by about the root of their mean, and 0.4 of that lies above it. Larger batches drop a "
    "smaller share.",
)

ANSWERS = r'''# %% right: worked
def dropped_interval() -> tuple[float, float]:
    """Percent of the tokens that you believe are dropped: (low, high), high at most 4 × low."""
    asked = params("predict-drops")
    share = 100 * 0.4 / math.sqrt(asked.tokens / asked.experts)  # 0.4 standard deviations lie above the mean
    return share / 1.5, share * 1.5
# %% right: a guess
def dropped_interval():
    return [3, 12]
# %% wrong: one number => values not-a-pair
# ~ share / 1.5, share * 1.5 ==> share
# %% wrong: it commits to nothing => values too-wide
# ~ share / 1.5, share * 1.5 ==> share / 5, share * 5
# %% wrong: the high end comes first => values reversed
# ~ share / 1.5, share * 1.5 ==> share * 1.5, share / 1.5
# %% wrong: none is dropped => values not-positive
# ~ share / 1.5, share * 1.5 ==> 0, 1
'''
