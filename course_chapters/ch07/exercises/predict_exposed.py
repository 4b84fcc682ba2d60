from course_grader.exercises import PREDICTION, Card, Params, Random, Worth
from course_lib.estimate.units import GB, TFLOP


def _exposed(params: float, tokens: int, gpus: int, bandwidth: float, rate: float) -> dict[str, object]:
    return {"params": params, "tokens": tokens, "gpus": gpus, "bandwidth": bandwidth, "rate": rate}


def _vary_exposed(draw: Random) -> Params:
    return _exposed(
        draw.choice((8e9, 13e9, 34e9, 70e9)),
        draw.choice((1024, 2048)),
        draw.choice((32, 64, 128)),
        draw.choice((25, 50)) * GB,
        400 * TFLOP,
    )


CARD = Card(
    title="Prediction: how much is exposed?",
    text="""Predict the exposed communication of a training step: the time by which the all-reduce outlasts the backward
pass. Committing to an interval first shows you which of the two you misjudge.

- **Job:** {{params:count}} parameters on {{gpus}} GPUs by data parallelism, {{tokens:int}} tokens per GPU and step.
  Each GPU achieves {{rate:tflops}}.
- **Communication:** 16-bit gradients on a ring, at {{bandwidth:gbps}} one way out of each GPU. Leave latency out.
- **Overlap:** communication runs during the whole **backward pass**, in small buckets, and never during the forward
  pass.
- `exposed_interval()` returns `(low, high)` in seconds, with `high` at most four times `low`.

You get the points for a valid interval, whether or not it contains the answer.""",
    **Worth(points=2, minutes=5, difficulty=3, importance=4),
    **PREDICTION,
    hints=(
        "Two times run in parallel. Which of them depends on the number of parameters?",
        "The backward pass takes four of the six FLOPs per parameter and token. What does each GPU send in a ring?",
        "`2 * (N - 1) / N * 2 * params / bandwidth - 4 * params * tokens / rate`; a factor of two on either "
        "side is safe.",
    ),
    answers=("exposed_interval",),
    params=_exposed(8e9, 2048, 64, 50 * GB, 400 * TFLOP),
    vary=_vary_exposed,
)
