from course_grader.exercises import PREDICTION, Anything, Card, Params, Random, Worth


def _vary_drops(draw: Random) -> Params:
    mean, experts = draw.choice((16, 36, 64, 100)), draw.choice((16, 32, 64, 128))
    return {"tokens": mean * experts, "experts": experts}


CARD = Card(
    title="Prediction: how much does chance drop?",
    text="""Predict how many tokens are dropped even if a router has learned a perfect balance: each of {{tokens:int}}
tokens goes to one of {{experts}} experts, all equally likely and independent of each other. The capacity factor is 1,
so every expert holds exactly its mean number of tokens.

Before you compute anything, commit to an interval for the percentage of tokens that are **dropped** in one step.
`dropped_interval()` returns `(low, high)` in percent, with `high` at most four times `low`. You earn the points for
committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=3),
    kind="more",
    **PREDICTION,
    hints=(
        "By how much does the count of one expert vary around its mean?",
        "The count has a standard deviation of about the root of its mean. Only the part above the mean is dropped.",
        "The mean excess of a normal number over its mean is 0.4 standard deviations: about `0.4 / sqrt(tokens "
        "/ experts)`.",
    ),
    answers=("dropped_interval",),
    params={"tokens": 1024, "experts": 16},
    vary=_vary_drops,
    returns=Anything("a pair of numbers in percent"),
)
