from course_grader.exercises import PREDICTION, Card, Params, Random, Worth
from course_lib.estimate.units import GB


def _wire(layers: int, hidden: int, tokens: int, ranks: int, bandwidth: float) -> dict[str, object]:
    return {"layers": layers, "hidden": hidden, "tokens": tokens, "ranks": ranks, "bandwidth": bandwidth}


def _vary_wire(draw: Random) -> Params:
    layers, hidden = draw.choice(((32, 4096), (40, 5120), (80, 8192), (126, 16384)))
    return _wire(layers, hidden, draw.choice((4096, 8192)), draw.choice((8, 16)), draw.choice((25, 50)) * GB)


CARD = Card(
    title="Prediction: the slow link",
    text="""Predict how long the all-reduces of tensor parallelism take across servers. It splits a model of {{layers}}
layers and hidden size {{hidden:int}} over {{ranks}} GPUs: per layer, two all-reduces of 16-bit activations in the
forward pass and two in the backward pass. No two of these GPUs are in one server, so all traffic uses the network,
{{bandwidth:gbps}} one way out of each GPU. Latency is left out.

Before you compute anything, commit to an interval for the time of these all-reduces, forward and backward, for one
micro-batch of {{tokens:int}} tokens. `tp_interval()` returns `(low, high)` in seconds, with `high` at most four times
`low`. You earn the points for committing, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=3, importance=4),
    **PREDICTION,
    hints=(
        "How many bytes does each all-reduced tensor have, and how many all-reduces are there?",
        "A ring all-reduce sends almost twice its tensor, however many ranks there are.",
        "`layers * 4 * 2 * (1 - 1 / ranks) * tokens * hidden * 2 / bandwidth`; a factor of two either way is safe.",
    ),
    answers=("tp_interval",),
    params=_wire(80, 8192, 8192, 8, 50 * GB),
    vary=_vary_wire,
)
