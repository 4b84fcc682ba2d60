"""Judge of predict-lost: prediction: how many updates are lost?"""

import math

from course_lib.judging import Params, prediction

BF16_HALF_SPACING = 8  # in [2^k, 2^(k+1)) half the spacing of bf16 is 2^(k - 8)


def lost_percent(params: Params) -> float:
    """The percentage of normal weights that an update of `rate` does not move in bf16; powers of two weigh nothing."""
    k = math.floor(math.log2(params["rate"])) + BF16_HALF_SPACING + 1
    return 100 * math.erfc(2.0**k / params["deviation"] / math.sqrt(2))


JUDGING = prediction(
    unit="%",
    truth=lost_percent,
    reveal=lambda params: (
        f"{lost_percent(params):.3g} %: every weight for which half the spacing of bf16 exceeds {params['rate']:g} stays where it is."
    ),
    why="Half a spacing of bf16 in [2^k, 2^(k+1)) is 2^(k − 8). All weights in the octaves where that exceeds the update are lost.",
)

ANSWERS = r"""# %% right: a guess
def lost_interval():
    return 20, 80


# %% right: wrong, as a list  from: a guess
# ~ 20, 80 ==> [0.5, 1]

# %% wrong: one number => values not-a-pair  from: a guess
# ~ 20, 80 ==> 50

# %% wrong: it commits to nothing => values too-wide  from: a guess
# ~ 20, 80 ==> 1, 100

# %% wrong: the high end comes first => values reversed  from: a guess
# ~ 20, 80 ==> 80, 20

# %% wrong: none => values not-positive  from: a guess
# ~ 20, 80 ==> 0, 1
"""
