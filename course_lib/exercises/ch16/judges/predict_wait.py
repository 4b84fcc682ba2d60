"""Judge of predict-wait: prediction: how fast do waits grow?"""

from course_lib.judging import Params
from course_lib.judging.prediction import prediction


def growth(params: Params) -> float:
    """The factor by which the mean wait of M/D/1 grows from one load to another."""
    low, high = params["low"] / 100, params["high"] / 100
    return high / (1 - high) / (low / (1 - low))


JUDGING = prediction(
    "times",
    truth=growth,
    reveal=lambda params: f"The mean wait grows {growth(params):.1f} times.",
    why="""With random arrivals and a fixed service time s the mean wait is s · ρ / (2 · (1 − ρ)). It grows slowly at first and without bound near ρ = 1: this is the knee. A
server that must answer quickly cannot be busy all the time.""",
)

ANSWERS = r"""# %% right: far off, but committed
def growth():
    return 1.5, 6.0


# %% right: by formula
from course_lib import params


def growth():
    asked = params("predict-wait")
    factor = asked.high / (100 - asked.high) * (100 - asked.low) / asked.low
    return factor / 1.5, factor * 1.5


# %% wrong: too wide => values too-wide  from: far off, but committed
# ~ 1.5, 6.0 ==> 1, 100

# %% wrong: the ends are swapped => values reversed  from: far off, but committed
# ~ 1.5, 6.0 ==> 12, 6

# %% wrong: one number => values not-a-pair  from: far off, but committed
# ~ 1.5, 6 ==> 9

# %% wrong: nothing is committed to => values not-positive  from: far off, but committed
# ~ 1.5, 6.0 ==> 0, 0

# %% wrong: left as it is => not-answered  from: far off, but committed
# ~ return 1.5, 6.0 ==> raise NotImplementedError
"""
