from course_chapters.ch01.exercises.shared import DEVICES
from course_grader.exercises import Card, Number, Params, Random, Rows, Worth
from course_grader.exercises.snippets import CLOSE, memory_of
from course_lib.estimate import memory

BUCKET_WORDS = {
    "weights": "weights",
    "grads": "gradients",
    "main_grads": "fp32 main gradients",
    "master": "fp32 master copy of the weights",
    "moments": "Adam's two moments together",
}


def buckets_text(convention: str) -> str:
    """The buckets of a convention in words: "weights 2, gradients 2, ..."."""
    buckets = memory.CONVENTIONS[convention].buckets
    return ", ".join(f"{BUCKET_WORDS[name]} {size:g}" for name, size in buckets.items() if size)


def _state_variant(draw: Random) -> Params:
    convention = draw.choice("CEG")
    return {
        "params": draw.choice((9e9, 11e9, 14e9, 20e9, 27e9, 30e9)),
        "memory": memory_of(draw.choice(DEVICES)),
        "convention": convention,
        "buckets": buckets_text(convention),
    }


CARD = Card(
    title="The state, the fewest GPUs, the room left",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("training_state", "fewest_gpus", "headroom"),
    text=f"""Write three functions that say how much training state a model has, how many GPUs hold it, and how much
room is left. You train a model of {{{{params:count}}}} parameters with Adam on GPUs of {{{{memory:gb}}}}. Its training
state, in bytes per parameter: {{{{buckets}}}}.

All sizes are in **bytes**, and 1 GB is 10⁹ bytes.

- `training_state(params)` returns the bytes of state of the whole model.
- `fewest_gpus(nbytes, gpu_memory)` returns the least whole number of GPUs (1 or more) that hold `nbytes` spread
  evenly. An exact fit counts.
- `headroom(nbytes, gpu_memory, gpus)` returns the bytes left on *each* GPU when `nbytes` is spread evenly over
  `gpus`; negative where the share does not fit.

Your functions must also work for other sizes and other GPUs. {CLOSE}""",
    hints=(
        "How many numbers does the optimizer keep for each weight, and how many bytes does each one take?",
        "Add up the bytes per parameter and multiply once. A share is bytes divided by GPUs. The fewest GPUs are a "
        "quotient, rounded so that everything fits.",
        "`per_param = sum(of the list above)`; `math.ceil(nbytes / gpu_memory)`; `gpu_memory - nbytes / gpus`.",
    ),
    allowed="the standard library and numpy.",
    hides=(
        "course_lib.estimate.memory:state_bytes, state_by_bucket, bytes_per_param, fewest_devices",
        "course_lib.estimate.memory:headroom_bytes, zero_bytes, zero_by_bucket, zero_bytes_per_param",
    ),
    params={"params": 13e9, "memory": memory_of("H100 SXM"), "convention": "B", "buckets": buckets_text("B")},
    vary=_state_variant,
    structural="convention",
    returns=Rows(Number("bytes"), Number("GPUs"), Number("bytes")),
)
