from collections.abc import Mapping

from course_grader.exercises import Card, Number, Rows, Worth

SLEEPS: Mapping[str, str] = {
    "stays": "what `state_bytes` counts stays on the GPUs while they generate",
    "offloaded": "what `state_bytes` counts is moved to the CPU's memory while they generate",
}

CARD = Card(
    title="Actor, reference and critic in memory",
    text="""A job holds several models: an actor and perhaps a critic, which are trained, and frozen ones such as a
reference. Write three functions. `models` lists a pair for each, the actor first: (parameters, whether it is trained).

- `state_bytes(models, gpus)`: bytes on each of `gpus` GPUs under ZeRO-3, activations left out. A trained model has
  {{state}} bytes per parameter, a frozen one its weights alone, 2 bytes per parameter.
- `fewest_gpus(models, memory, working)`: the smallest number of GPUs of `memory` bytes each on which the state fits
  beside `working` bytes on each GPU. An exact fit is enough. `working` is less than `memory`.
- `cache_tokens(models, gpus, tp, memory, kv)`: the same GPUs also generate. Each group of `tp` GPUs holds a copy of the
  actor's weights in 2 bytes per parameter, divided among them, and {{means}}. Return how many tokens, of `kv` bytes
  each, the KV cache of one group holds in what is left: a whole number, 0 if nothing is left.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=4),
    kind="more",
    hints=(
        "What does a frozen model not need?",
        "Under ZeRO-3 all bytes of all models are divided by the GPUs; each GPU has `memory - working` for them.",
        "`math.ceil(total / (memory - working))`. A group has `tp * memory` bytes; subtract `2 * P` of the actor once, "
        "and the state of its `tp` GPUs if it stays.",
    ),
    answers=("state_bytes", "fewest_gpus", "cache_tokens"),
    allowed="plain Python; the library's estimates are switched off.",
    hides=("course_chapters.ch19.post_plan:memory", "course_lib.estimate.memory:zero_bytes, fewest_devices"),
    params={"state": 18, "sleeps": "stays", "means": SLEEPS["stays"]},
    vary=lambda draw: {"state": draw.choice((10, 12, 16)), "sleeps": "offloaded", "means": SLEEPS["offloaded"]},
    structural="sleeps",
    needs=("02", "08", "16"),
    returns=Rows(Number("bytes"), Number("GPUs", whole=True), Number("tokens", whole=True)),
)
