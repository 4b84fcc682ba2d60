from course_grader.exercises import Card, Worth, rows
from course_grader.exercises.snippets import memory_of
from course_lib.estimate.units import GB

CARD = Card(
    title="How large a model by sharding alone?",
    text="""Compute the largest model that sharding alone can fit. "Double the GPUs, halve the memory" holds only for
the state.

- Under ZeRO stage 3 a GPU holds its share of `per_param` bytes per parameter, **the whole weights of two layers** in 16
  bits (the one that computes and the next), and its own activations. A model of P parameters consists of `layers` equal
  layers.
- `largest_model(ranks, memory, layers, activations, per_param)` returns the largest P that fits into `memory` bytes on
  each of `ranks` GPUs, or 0 if nothing fits.
- `ranks_for(params, memory, layers, activations, per_param)` returns the fewest GPUs on which a model fits; exactly
  full fits. Return `None` if no number of GPUs is enough.

Shown: {{ranks}} GPUs of {{memory:gb}}, {{layers}} layers, {{activations:gb}} of activations on each, {{per_param}}
bytes per parameter.""",
    **Worth(points=6, minutes=10, difficulty=2, importance=4),
    kind="more",
    hints=(
        "With infinitely many GPUs, what would each still hold?",
        "Bytes per parameter on one GPU: `per_param` over N, and two layers, which are 2/layers of the model, at 2 "
        "bytes. Activations take the rest of the memory.",
        "`(memory - activations) / (per_param / ranks + 4 / layers)`; for the ranks: `room = memory - activations - 4 "
        "* params / layers`, and if it is positive `math.ceil(per_param * params / room)`.",
    ),
    answers=("largest_model", "ranks_for"),
    hides=("course_lib.parallel.sharding:gathered_peak", "course_lib.estimate.memory:zero_bytes, zero_bytes_per_param"),
    params={"ranks": 64, "memory": memory_of("H100 SXM"), "layers": 80, "activations": 20 * GB, "per_param": 16},
    vary=lambda draw: {
        "ranks": draw.choice((32, 128, 256)),
        "memory": memory_of(draw.choice(("A100 SXM 80GB", "H200 SXM"))),
        "layers": draw.choice((32, 48, 96)),
        "activations": draw.choice((10, 15, 30)) * GB,
    },
    probe=rows,
)
