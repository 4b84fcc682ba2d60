import math

from course_grader.judging import Params, prediction

BF16_HALF_SPACING = 8  # in [2^k, 2^(k+1)) half the spacing of bf16 is 2^(k - 8)


def lost_percent(params: Params) -> float:
    """The percentage of normal weights that an update of `rate` does not move in bf16; powers of two weigh nothing."""
    k = math.floor(math.log2(params["rate"])) + BF16_HALF_SPACING + 1
    return 100 * math.erfc(2.0**k / params["deviation"] / math.sqrt(2))


JUDGING = prediction(
    unit="%",
    truth=lost_percent,
    reveal=lambda params: (
        f"{lost_percent(params):.3g} %: every weight for which half the spacing of bf16 exceeds {params['rate']:g} "
        f"stays where it is."
    ),
    why="Half a spacing of bf16 in [2^k, 2^(k+1)) is 2^(k − 8). All weights in the octaves where that exceeds the "
    "update are lost.",
)

ANSWERS = r'''# %% right: worked
def lost_interval() -> tuple[float, float]:
    """Percent of the weights that you believe stay as they are: (low, high), high at most 4 × low."""
    asked = params("predict-lost")
    first = (
        math.floor(math.log2(asked.rate)) + 9
    )  # from 2**first on, half the spacing of bf16 exceeds the learning rate
    share = 100 * math.erfc(2.0**first / asked.deviation / math.sqrt(2))
    return share / 1.5, share * 1.5
# %% right: wrong, as a list
# ~ share / 1.5, share * 1.5 ==> [0.5, 1]
'''
