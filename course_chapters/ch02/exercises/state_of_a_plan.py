from course_grader.exercises import Card, Params, Random, Worth, rows
from course_grader.exercises.snippets import CLOSE, folded, memory_of

TYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
MOMENTS = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}  # numbers that an optimizer keeps for each parameter
BUCKETS = ("weights", "grads", "main_grads", "master", "moments")


def plan(
    weights: str, grads: str, main_grads: str | None, master: str | None, optimizer: str, moments: str
) -> dict[str, object]:
    """Who keeps what in which type, as an exercise states it."""
    kept = (weights, grads, main_grads, master, optimizer, moments)
    return dict(zip((*BUCKETS[:-1], "optimizer", "moments"), kept, strict=True))


def _state(size: float, device: str, chosen: dict[str, object]) -> dict[str, object]:
    return {"size": size, "device": device, "memory": memory_of(device), "plan": chosen, "plan_words": str(chosen)}


def _state_variant(draw: Random) -> Params:
    half = draw.choice(("bf16", "fp16"))  # the plan shown is always one of sixteen bytes: what else there is, is unseen
    return _state(
        draw.choice((8e9, 13e9, 32e9, 120e9, 405e9)),
        draw.choice(("H100 SXM", "H200 SXM", "B200 SXM", "A100 SXM 40GB")),
        plan(half, half, None, "fp32", "adamw", "fp32"),
    )


KEYS = """| key | is |
|---|---|
| `"weights"` | the weights that the passes use |
| `"grads"` | the gradients as the backward pass leaves them |
| `"main_grads"` | a second copy of the gradients, used for summing |
| `"master"` | the copy of the weights that the optimizer updates; with `None` it updates the weights themselves |
| `"optimizer"` | numbers kept per parameter: two for `"adamw"`, one for `"momentum"` and `"lion"`, none for `"sgd"` |
| `"moments"` | the data type of those numbers |"""

CARD = Card(
    title="Five buckets",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("state_buckets", "largest_model"),
    text=f"""Compute how many bytes each bucket of training state needs under a given plan, and the largest model that
fits. A plan lists each copy and its data type; `None` means that there is no such bucket: it takes 0 bytes.

{folded("The keys of the dictionary `plan`", KEYS)}

- `state_buckets(params, plan)` returns the **bytes** of `"weights"`, `"grads"`, `"main_grads"`, `"master"` and
  `"moments"` as a dictionary.
- `largest_model(memory, plan)` returns the most parameters whose state fits in `memory` bytes, without activations.
- `"fp32"` takes 4 bytes, `"bf16"` and `"fp16"` 2, `"fp8"` and `"int8"` 1.
- The visible cases use {{{{size:count}}}} parameters, and one {{{{device}}}} with {{{{memory:gb}}}}, under the plan
  `{{{{plan_words}}}}`.

{CLOSE}""",
    hints=(
        "How many numbers does this plan keep for each parameter in each bucket, and how many bytes does each "
        "of them take?",
        "Every bucket is parameters × copies × bytes of its data type. Only the moments can have more than one copy. "
        "The largest model is the memory divided by the bytes per parameter.",
        "`size = {'fp32': 4, 'bf16': 2, …}`; `'master': params * size[plan['master']] if plan['master'] else 0`; "
        "`'moments': params * {'adamw': 2, …}[plan['optimizer']] * size[plan['moments']]`; `memory / "
        "sum(state_buckets(1, plan).values())`.",
    ),
    allowed="the standard library and numpy.",
    hides=(
        "course_lib.estimate.memory:state_bytes, state_by_bucket, largest_model, bytes_per_param",
        "course_lib.estimate.memory:optimizer_bytes_per_param",
    ),
    params=_state(70e9, "H100 SXM", plan("bf16", "bf16", None, "fp32", "adamw", "fp32")),
    vary=_state_variant,
    probe=rows,
)
