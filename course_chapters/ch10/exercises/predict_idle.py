from course_grader.exercises import PREDICTION, Card, Params, Random, Worth


def _vary_idle(draw: Random) -> Params:
    return {
        "stages": draw.choice((8, 12, 16)),
        "microbatches": draw.choice((16, 24, 48)),
        "gpus": draw.choice((512, 2048, 4096)),
        "days": draw.choice((20, 40, 60)),
    }


CARD = Card(
    title="Prediction: idle GPU-days",
    text="""Predict how many GPU-days the bubble costs. {{gpus:int}} GPUs train for {{days}} days. The model is divided
into {{stages}} equal stages, and each pipeline runs 1F1B with {{microbatches}} micro-batches a step. Communication
takes no time.

Before you compute anything, commit to an interval for the time lost to the bubble over the whole run. `idle_interval()`
returns `(low, high)` in GPU-days, with `high` at most four times `low`. You earn the points for committing, not for
being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "Would you say a hundredth, a tenth or a half of the run?",
        "Every rank is idle in p − 1 of m + p − 1 slots.",
        "`gpus * days * (p - 1) / (m + p - 1)`; a factor of two either way is a safe interval.",
    ),
    answers=("idle_interval",),
    params={"stages": 16, "microbatches": 64, "gpus": 1024, "days": 30},
    vary=_vary_idle,
)
