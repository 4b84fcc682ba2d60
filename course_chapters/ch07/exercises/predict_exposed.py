from course_grader.exercises import PREDICTION, Card, Worth, pick
from course_lib.estimate.units import GB, TFLOP

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
    params={"params": 8e9, "tokens": 2048, "gpus": 64, "bandwidth": 50 * GB, "rate": 400 * TFLOP},
    vary=pick(params=(8e9, 13e9, 34e9, 70e9), tokens=(1024, 2048), gpus=(32, 64, 128), bandwidth=(25 * GB, 50 * GB)),
)
