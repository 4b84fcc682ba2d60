from collections.abc import Mapping

from course_grader.exercises import Card, Number, Params, Random, Rows, Worth

SHAPES: Mapping[str, str] = {
    "cosine": "Then it falls along half a cosine, from `peak` at update `warmup` to `floor` at update `total`.",
    "wsd": "Then it stays at `peak`. Over the last fifth of the `total` updates (update `0.8 * total` to `total`) it "
    "falls along a straight line to `floor`. The warm-up always ends before that.",
}


def _rate_variant(draw: Random) -> Params:
    shape = {"shape": "wsd", "falls": SHAPES["wsd"], "source": "a schedule of three phases"}
    peak, warmup = draw.choice((3e-4, 2e-4)), draw.choice((1000, 2000))
    return {**shape, "peak": peak, "floor": peak / 10, "warmup": warmup, "total": draw.choice((50_000, 100_000))}


CARD = Card(
    title="The learning rate of any update",
    text="""Write the schedule as a function of the update's number, so that a resumed run continues with the right
learning rate.

`learning_rate(step, peak, floor, warmup, total)` returns the learning rate of update number `step`. The first update is
number 1.

- During the first `warmup` updates it rises linearly from 0, and reaches `peak` at update `warmup`. `warmup` may be 0;
  then there is no rise, and every rule below holds from the start.
- {{falls}}
- After update `total` it stays at `floor`.

Shown: {{source}}, with `warmup` {{warmup:int}} and `total` {{total:int}}. `step` may be 0; the formula then gives the
value before any update. Values within a millionth pass.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "What is the learning rate at update 1, at update `warmup`, and one update after `total`?",
        "Three cases: the ramp, the fall, the rest. In the fall, let s run from 0 to 1 between its two ends.",
        "Cosine: `s = (step - warmup) / (total - warmup)`, `floor + (peak - floor) * (1 + cos(pi * s)) / 2`. Line: `s "
        "= (step - 0.8 * total) / (0.2 * total)`, `peak + (floor - peak) * s`, where s is at least 0. Check `step >= "
        "total` first.",
    ),
    answers=("learning_rate",),
    allowed="the standard library.",
    hides=("course_lib.model.optimizer.schedules:linear_warmup, cosine, wsd",),
    params={
        **{"shape": "cosine", "falls": SHAPES["cosine"], "source": "the published schedule of Llama 3 405B"},
        **{"peak": 8e-5, "floor": 8e-7, "warmup": 8000, "total": 1_200_000},
    },
    vary=_rate_variant,
    structural="shape",
    returns=Rows(Number()),
)
