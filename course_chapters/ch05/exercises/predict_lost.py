from course_grader.exercises import PREDICTION, Anything, Card, Worth

CARD = Card(
    title="Prediction: how many updates are lost?",
    text="""Predict how many weights do not change in a step, if a model keeps its weights in bf16 without a master
copy. They are normally distributed with a standard deviation of {{deviation}}. Adam changes every weight by about the
learning rate, {{rate}}, in a random direction.

Before you compute anything, commit to an interval for the percentage of weights that do **not** change in one step.
`lost_interval()` returns `(low, high)` in percent, with `high` at most four times `low`. You earn the points for
committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Large weights have a wide spacing. From which size on is half the spacing larger than the learning rate?",
        "In [2^k, 2^(k+1)) half the spacing of bf16 is 2^(k − 8). Find the first k for which that exceeds the "
        "learning rate.",
        "The share of normal weights beyond 2^k is `math.erfc(2**k / deviation / math.sqrt(2))`.",
    ),
    answers=("lost_interval",),
    params={"deviation": 0.02, "rate": 5e-5},
    vary=lambda draw: {"deviation": draw.choice((0.01, 0.02, 0.04)), "rate": draw.choice((2e-5, 4e-5, 5e-5, 7e-5))},
    returns=Anything("a pair of numbers in percent"),
)
