from course_grader.exercises import Anything, Card, Params, Random, Rows, Worth
from course_grader.exercises.snippets import CLOSE
from course_lib.estimate import facts


def _spent(kind: str, usd: float, price: float) -> dict[str, object]:
    """The parameters that say what was spent, in dollars or in GPU-hours."""
    hours = usd / price
    spent, words, unit = {
        "dollars": (usd, f"a budget of \\${usd / 1e6:g}M", "US dollars"),
        "GPU-hours": (hours, f"{hours / 1e6:g}M GPU-hours", "GPU-hours"),
    }[kind]
    return {"spent_in": kind, "spent": spent, "usd_per_hour": price, "spent_words": words, "spent_unit": unit}


def _waste_variant(draw: Random) -> Params:
    return {
        **_spent("GPU-hours", draw.choice((6e6, 8e6, 12e6, 20e6)), draw.choice((1.5, 2.0, 2.5, 4.0))),
        "mfu": draw.choice((0.28, 0.3, 0.32, 0.38)),
        "achievable": draw.choice((0.48, 0.5, 0.52)),
        "typical": draw.choice((0.42, 0.44, 0.45)),
    }


CARD = Card(
    title="Money lost, compared with what?",
    **Worth(points=10, minutes=10, difficulty=2, importance=4),
    answers=("money_lost",),
    text=f"""A run at {{{{mfu:percent}}}} MFU used {{{{spent_words}}}}; a GPU costs {{{{usd_per_hour:usd}}}} an hour.
Compute how much of that was lost. The answer depends on the baseline: the whole peak, the {{{{achievable:percent}}}}
that good teams reach, or the {{{{typical:percent}}}} that was promised.

`money_lost(spent, usd_per_hour, mfu, baselines)` gets what was spent in **{{{{spent_unit}}}}** and a dictionary
`baselines` from a name to an MFU, such as `{{"whole peak": 1.0, "promised": {{{{typical}}}}}}`. Return a dictionary
with the same names, each with a pair `(lost, more)`:

- `lost`: the US dollars that the **same work** would have saved at that baseline;
- `more`: the extra work that the **same money** would have done there, as a fraction (0.25 is a quarter more).

A run at or above its baseline has lost nothing: both are 0. You may not need every argument. {CLOSE}""",
    hints=(
        "If the work is fixed, how does its price change when the MFU doubles?",
        "The same work at the baseline takes mfu / baseline of the GPU-hours. The same GPU-hours at the baseline do "
        "baseline / mfu of the work. The two fractions are not equal.",
        "For each name: `lost = usd * (1 - mfu / baseline)` and `more = baseline / mfu - 1`, both at least 0, "
        "where `usd` is what was spent, in dollars.",
    ),
    allowed="the standard library and numpy.",
    hides=("course_lib.estimate.compute:wasted_fraction", "course_lib.estimate.compute:budget_wasted"),
    params=_spent("dollars", 10e6, float(facts.price("H100 hour"))) | {"mfu": 0.35, "achievable": 0.5, "typical": 0.45},
    vary=_waste_variant,
    structural="spent_in",
    returns=Rows(Anything("a dictionary with a pair (lost, more) for each baseline")),
)
