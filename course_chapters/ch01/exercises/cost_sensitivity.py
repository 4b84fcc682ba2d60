from course_chapters.ch01.exercises.shared import DEVICES, peak_of
from course_grader.exercises import Card, Number, Params, Random, Rows, Worth
from course_lib.estimate import facts

_ASKED = {
    "point": (
        "what the **next percentage point** of MFU saves: the cost at `mfu` less the cost at `mfu + 0.01` (`mfu` is at "
        "most 0.9)"
    ),
    "slope": (
        "the **slope**: minus the derivative of the cost with respect to MFU at `mfu`, in dollars per percentage point"
    ),
}


def _point_variant(draw: Random) -> Params:
    return {
        **peak_of(draw.choice(DEVICES)),
        "asked": "slope",
        "question": _ASKED["slope"],
        "params": draw.choice((30e9, 65e9, 110e9)),
        "tokens": draw.choice((8e12, 10e12, 18e12)),
        "usd_per_hour": draw.choice((1.5, 2.0, 2.5, 3.0)),
        "mfu": draw.choice((0.3, 0.35, 0.45)),
    }


CARD = Card(
    title="What is one point of MFU worth?",
    **Worth(points=10, minutes=10, difficulty=3, importance=3),
    kind="more",
    answers=("cost_per_mfu_point",),
    text="""Compute what one percentage point of MFU is worth. The run trains {{params:count}} parameters on
{{tokens:count}} tokens, on {{device}} with {{flops:tflops}} dense, at {{usd_per_hour:usd}} per GPU-hour and
{{mfu:percent}} MFU.

`cost_per_mfu_point(params, tokens, gpu_flops, usd_per_hour, mfu)` returns, in US dollars, {{question}}. Money saved is
positive. `gpu_flops` is one GPU's peak in FLOP/s, `mfu` a fraction of one; count 6 FLOP per parameter and token, and
pay for GPU-hours only. Numbers within 0.1 % pass, so the slope and the next point are different answers.""",
    hints=(
        "The number of GPUs is not given. Why is it not needed?",
        "Cost is proportional to 1 / MFU. Write `cost(mfu)` once, and ask how fast it falls.",
        "`cost = lambda u: 6 * params * tokens / (gpu_flops * u) / 3600 * usd_per_hour`; a difference of two costs, or "
        "`cost(mfu) / mfu` for a whole unit of MFU, of which a point is a hundredth.",
    ),
    allowed="the standard library, numpy and `course_lib.estimate.units`.",
    hides=(
        "course_lib.estimate.compute:points_of_mfu_usd, cost_slope, elasticity, wasted_fraction",
        "course_lib.estimate.compute:budget_wasted",
    ),
    params={
        "asked": "point",
        "question": _ASKED["point"],
        **peak_of("H100 SXM"),
        "params": 70e9,
        "tokens": 15e12,
        "usd_per_hour": float(facts.price("H100 hour")),
        "mfu": 0.4,
    },
    vary=_point_variant,
    structural="asked",
    returns=Rows(Number("US dollars")),
)
