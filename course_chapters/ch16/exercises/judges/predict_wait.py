from course_grader.judging import Params
from course_grader.judging.prediction import prediction


def growth(params: Params) -> float:
    """The factor by which the mean wait of M/D/1 grows from one load to another."""
    low, high = params["low"] / 100, params["high"] / 100
    return high / (1 - high) / (low / (1 - low))


JUDGING = prediction(
    "times",
    truth=growth,
    reveal=lambda params: f"The mean wait grows {growth(params):.1f} times.",
    why="""With random arrivals and a fixed service time s the mean wait is s · ρ / (2 · (1 − ρ)). It grows slowly at
first and without bound near ρ = 1: this is the knee. A server that must answer quickly cannot be busy all the time.""",
)

ANSWERS = r'''# %% right: worked
def growth() -> tuple[float, float]:
    """The factor by which you believe the mean wait grows: (low, high), high at most 4 × low."""
    asked = params("predict-wait")
    low, high = asked.low / 100, asked.high / 100
    factor = high / (1 - high) / (low / (1 - low))
    return factor / 1.5, factor * 1.5
# %% right: far off, but committed
# ~ factor / 1.5, factor * 1.5 ==> 1.5, 6.0
'''
