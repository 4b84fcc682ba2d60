from course_chapters.ch01.exercises.shared import DEVICES, peak_of
from course_grader.exercises import PREDICTION, Card, Params, Random, Worth


def _weeks_variant(draw: Random) -> Params:
    return {
        **peak_of(draw.choice(DEVICES)),
        "params": draw.choice((32e9, 65e9, 110e9)),
        "tokens": draw.choice((8e12, 10e12, 18e12)),
        "gpus": draw.choice((512, 768, 2048)),
    }


CARD = Card(
    title="Before you compute: how many weeks?",
    **Worth(points=3, minutes=5, difficulty=2, importance=3),
    **PREDICTION,
    answers=("weeks_interval",),
    text="""{{params:count}} parameters, {{tokens:count}} tokens, {{gpus:int}} {{device}} at {{mfu:percent}} MFU and
perfect scaling: estimate without a calculator how many weeks the run takes. Round every factor to a small number times
a power of ten.

`weeks_interval()` returns `(low, high)`, the range of **weeks** in which you expect the run's length. You earn the
points for an interval of positive numbers with `high` at most 4 times `low`, whether or not the true length is in it.
You see the true length once you have committed.""",
    hints=(
        "What power of ten is the work, and what power of ten is the speed of all GPUs together?",
        "Work is 6 × parameters × tokens. Speed is GPUs × peak × MFU. A week is about 6 × 10⁵ seconds.",
        "`return (guess / 1.8, guess * 1.8)` with your guess in weeks.",
    ),
    params={**peak_of("H100 SXM"), "params": 70e9, "tokens": 15e12, "gpus": 1024, "mfu": 0.4},
    vary=_weeks_variant,
)
