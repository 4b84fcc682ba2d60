from course_grader.exercises import Card, ListOf, Maybe, Number, Params, Random, Rows, Word, Worth
from course_lib.estimate.units import GB

PHASES = ("load", *(f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")))
_BETWEEN = {
    "set to None": "After each step the gradients are **set to None**, which frees their memory until the next "
    "backward pass.",
    "zeroed": "After each step the gradients are **filled with zeros**, so they keep their memory once allocated.",
}


def _spike(between: str, params: float, activations: float, work: float, memory: float) -> dict[str, object]:
    """A job with 16-bit weights and gradients, an fp32 master copy and Adam's two moments."""
    job = {"weights": 2.0 * params, "grads": 2.0 * params, "moments": 12.0 * params}
    job |= {"activations": activations, "work": work}
    named = {f"{name}_bytes": value for name, value in job.items()}
    stated = {"job": job, "memory": memory, "params": params, **named}
    return {"grads_between": between, "between_words": _BETWEEN[between], **stated}


def _spike_variant(draw: Random) -> Params:
    params, activations = draw.choice((1.5e9, 2e9, 3e9)), draw.choice((26, 30)) * GB
    second = 16 * params + activations  # bytes at the end of the second forward pass
    return _spike("zeroed", params, activations, draw.choice((1.5, 2.0)) * GB, second - draw.choice((1, 2)) * GB)


CARD = Card(
    title="The second step is not the first",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    kind="more",
    answers=("timeline", "dies_at"),
    text="""Find out in which phase a job runs out of memory. One device runs three training steps; `job` is a
dictionary of bytes with `"weights"`, `"grads"`, `"moments"` (everything the optimizer keeps, including its master
copy), `"activations"` (of one forward pass) and `"work"`.

- Loading allocates the weights.
- A forward pass adds activations until all of them exist.
- A backward pass frees activations from the last layer to the first, while gradients grow evenly: half of them exist
  when half of the activations are gone. Gradients are allocated in the first backward pass that needs them.
- The optimizer allocates its state in its **first** step, never frees it, and needs `"work"` bytes during every step.
- {{between_words}}

Write two functions:

- `timeline(job)`: ten numbers, the bytes alive at the **worst moment** of `"load"`, `"forward 1"`, `"backward 1"`,
  `"step 1"`, `"forward 2"`, … `"step 3"`.
- `dies_at(job, memory)`: the name of the first phase that needs more than `memory` bytes, or `None` if all fit.

The visible job has {{params:count}} parameters with Adam in mixed precision: {{weights_bytes:gb}} of weights,
{{grads_bytes:gb}} of gradients, {{moments_bytes:gb}} of optimizer state, {{activations_bytes:gb}} of activations and
{{work_bytes:gb}} of work space, on a device with {{memory:gb}}. Numbers within 0.1 % pass.""",
    hints=(
        "Which buckets exist before the first optimizer step, and which exist from then on?",
        "For each phase, list what is alive throughout it, then add what is allocated and freed inside. Where "
        "activations shrink as gradients grow, the worst moment is at one of the two ends.",
        "With gradients set to None: forward = weights + kept + activations, backward = weights + kept + "
        "max(activations, grads), step = weights + grads + moments + work, where kept is 0 in step 1 and `moments` "
        "afterwards. Zeroed gradients stay allocated.",
    ),
    allowed="the standard library and numpy.",
    returns=Rows(ListOf(Number("bytes"), len(PHASES), what="phase"), Maybe(Word(PHASES))),
    params=_spike("set to None", 4e9, 24 * GB, 1 * GB, 78 * GB),
    vary=_spike_variant,
    structural="grads_between",
)
