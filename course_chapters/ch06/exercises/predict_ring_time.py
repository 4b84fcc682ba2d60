from course_grader.exercises import PREDICTION, Card, Params, Random, Worth
from course_lib.estimate.units import GB, US


def _vary_time(draw: Random) -> Params:
    return {
        "nbytes": draw.choice((14, 16, 64, 140)) * GB,
        "ranks": draw.choice((64, 256, 512, 1024)),
        "bandwidth": draw.choice((50, 100, 200, 450)) * GB,
        "latency": draw.choice((5, 10, 20)) * US,
    }


def _microseconds(params: Params) -> Params:
    return {**params, "latency_us": round(params["latency"] / US)}


CARD = Card(
    title="Prediction: how long does the ring take?",
    text="""Estimate how long one ring all-reduce takes, before you compute anything. A ring of {{ranks}} ranks
all-reduces {{nbytes:gb}} of gradients on each rank.

- The links carry {{bandwidth:gbps}} in each direction, and every message costs {{latency_us}} µs of latency. Nothing
  overlaps.
- `ring_seconds_interval()` returns `(low, high)` in seconds: an interval that you believe contains the answer, with
  `high` at most four times `low`.
- You earn the points for committing yourself, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How long would it take to send the tensor once over one link?",
        "In a ring, almost twice the tensor passes through every link. What do all the latencies add up to?",
        "`2 * (N - 1) / N * bytes / bandwidth + 2 * (N - 1) * latency`; a factor of two in each direction is a safe "
        "interval.",
    ),
    answers=("ring_seconds_interval",),
    params=_microseconds({"nbytes": 140 * GB, "ranks": 64, "bandwidth": 100 * GB, "latency": 10 * US}),
    vary=lambda draw: _microseconds(_vary_time(draw)),
)
