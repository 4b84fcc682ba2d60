from course_grader.exercises import PREDICTION, Anything, Card, Params, Random, Worth


def _vary_goodput(draw: Random) -> Params:
    return {"hours": draw.choice((2, 4, 5)), "save": draw.choice((30, 75, 90)), "restart": draw.choice((5, 8, 15))}


CARD = Card(
    title="Prediction: what do failures cost?",
    text="""Predict how much time a job loses to failures and checkpoints. It fails every {{hours}} hours on average. A
checkpoint stops it for {{save}} seconds, and a restart takes {{restart}} minutes. The job saves at the best interval.

Before you compute anything, commit to an interval for the percentage of time that is **lost**: to saves, to work that
is done twice, and to restarts. `lost_interval()` returns `(low, high)` in percent, with `high` at most four times
`low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Each failure costs one restart. What share of the time between two failures is that?",
        "At the best interval, saves and repeated work cost about the same. Each is about the root of save / (2 · "
        "time between failures).",
        "Add the two roots and restart / time between failures.",
    ),
    answers=("lost_interval",),
    params={"hours": 3, "save": 45, "restart": 10},
    vary=_vary_goodput,
    returns=Anything("a pair of numbers in percent"),
)
