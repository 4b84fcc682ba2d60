from course_grader.exercises import PREDICTION, Card, Worth, pick
from course_lib.estimate.running_plan import BATCH
from course_lib.estimate.units import GB, TFLOP

CARD = Card(
    title="Prediction: one model over all GPUs",
    text="""Estimate for how many **seconds** a GPU sends in one step of FSDP, before you compute anything. A model of
{{params:count}} parameters is sharded over **all** {{gpus:int}} GPUs of a cluster, with no other kind of parallelism.

- Each step gathers the weights for the forward pass and again for the backward pass, and reduces the gradients to their
  owners, all in 16 bits, one ring collective after another.
- A server has {{per_server}} GPUs. As the ring fills it, the libraries let it leave the server over all its adapters,
  each with {{bandwidth:gbps}} one way. The links inside have {{link:gbps}}; the slower of the two sets the pace of
  every GPU.
- `sending_interval()` returns `(low, high)`, at most a factor of four apart. You earn the points for committing
  yourself, not for being right.""",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    hints=(
        "How many bytes are the weights? How many times does a rank pass on nearly all of them?",
        "In a ring, a rank sends all parts but one for an all-gather, and as many for a reduce-scatter: each about "
        "the bytes of the weights.",
        "`3 * 2 * params / min(link, per_server * bandwidth)`; a factor of two in each direction is a safe interval.",
    ),
    answers=("sending_interval",),
    params={
        "params": 405e9,
        "gpus": 24_576,
        "per_server": 8,
        "link": 450 * GB,
        "bandwidth": 50 * GB,
        "tokens": BATCH,
        "rate": 400 * TFLOP,
    },
    vary=pick(params=(70e9, 180e9, 405e9), gpus=(2048, 8192, 16_384), bandwidth=(25 * GB, 50 * GB)),
)
