"""First exercises of chapter 02: the state of a plan, parameters by part, a log's peak, a prediction of activations."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from course_lib import facts
from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import CLOSE, functions, memory_of
from course_lib.exercises.probes import PREDICTION, rows

TYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
MOMENTS = {"sgd": 0, "momentum": 1, "lion": 1, "adamw": 2}  # numbers that an optimizer keeps for each parameter
BUCKETS = ("weights", "grads", "main_grads", "master", "moments")


def plan(
    weights: str, grads: str, main_grads: str | None, master: str | None, optimizer: str, moments: str
) -> dict[str, Any]:
    """Who keeps what in which type, as an exercise states it."""
    kept = (weights, grads, main_grads, master, optimizer, moments)
    return dict(zip((*BUCKETS[:-1], "optimizer", "moments"), kept, strict=True))


def _state(size: float, device: str, chosen: dict[str, Any]) -> dict[str, Any]:
    return {"size": size, "device": device, "memory": memory_of(device), "plan": chosen, "plan_words": str(chosen)}


def _state_variant(draw: random.Random) -> Mapping[str, Any]:
    half = draw.choice(("bf16", "fp16"))  # the plan shown is always one of sixteen bytes: what else there is, is unseen
    return _state(
        draw.choice((8e9, 13e9, 32e9, 120e9, 405e9)),
        draw.choice(("H100 SXM", "H200 SXM", "B200 SXM", "A100 SXM 40GB")),
        plan(half, half, None, "fp32", "adamw", "fp32"),
    )


STATE_OF_A_PLAN = Card(
    id="state-of-a-plan",
    chapter="02",
    title="Five buckets",
    **Worth(points=5, minutes=5, difficulty=1, importance=5),
    answers=("state_buckets", "largest_model"),
    text=f"""Compute how many bytes each bucket of training state needs under a given plan, and the largest model that fits. A plan lists
each copy and its data type; `None` means that there is no such bucket: it takes 0 bytes.

| key of the plan | meaning |
|---|---|
| `"weights"` | the weights that the passes use |
| `"grads"` | the gradients as the backward pass leaves them |
| `"main_grads"` | a second copy of the gradients, used for summing |
| `"master"` | the copy of the weights that the optimizer updates; with `None` it updates the weights themselves |
| `"optimizer"` | numbers kept per parameter: two for `"adamw"`, one for `"momentum"` and `"lion"`, none for `"sgd"` |
| `"moments"` | the data type of those numbers |

- `state_buckets(params, plan)` returns the **bytes** of `"weights"`, `"grads"`, `"main_grads"`, `"master"` and `"moments"` as a dictionary.
- `largest_model(memory, plan)` returns the most parameters whose state fits in `memory` bytes, without activations.
- `"fp32"` takes 4 bytes, `"bf16"` and `"fp16"` 2, `"fp8"` and `"int8"` 1.
- The visible cases use {{{{size:count}}}} parameters, and one {{{{device}}}} with {{{{memory:gb}}}}, under the plan `{{{{plan_words}}}}`.

{CLOSE}""",
    hints=(
        "How many numbers does this plan keep for each parameter in each bucket, and how many bytes does each of them take?",
        "Every bucket is parameters × copies × bytes of its data type. Only the moments can have more than one copy. The "
        "largest model is the memory divided by the bytes per parameter.",
        "`size = {'fp32': 4, 'bf16': 2, …}`; `'master': params * size[plan['master']] if plan['master'] else 0`; `'moments': "
        "params * {'adamw': 2, …}[plan['optimizer']] * size[plan['moments']]`; `memory / sum(state_buckets(1, plan).values())`.",
    ),
    allowed="the standard library and numpy.",
    hides=functions(
        *("memory", "state_bytes", "state_by_bucket", "largest_model", "bytes_per_param", "optimizer_bytes_per_param")
    ),
    params=_state(70e9, "H100 SXM", plan("bf16", "bf16", None, "fp32", "adamw", "fp32")),
    vary=_state_variant,
    probe=rows,
)

_BIASES = {
    "none": "No matrix has a bias.",
    "qkv": "The query, key and value matrices have biases (one number per output); the other matrices have none.",
}
PARTS = ("embedding", "attention", "mlp", "norms", "head")


def shape_of(model: str) -> dict[str, Any]:
    """A published model's shape as plain data."""
    one = facts.model(model)
    sizes = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab")
    return {name: int(getattr(one, name)) for name in sizes} | {"gated": one.gated, "tied": one.tied}


def _count(model: str, biases: str) -> dict[str, Any]:
    shape = shape_of(model)
    stated = {"model": model, "shape": shape, "shape_words": str(shape)}
    return {**stated, "biases": biases, "biases_words": _BIASES[biases]}


COUNT_PARAMETERS = Card(
    id="count-parameters",
    chapter="02",
    title="Every parameter, by part",
    **Worth(points=15, minutes=15, difficulty=2, importance=4),
    kind="more",
    answers=("count_parameters",),
    text="""Write `count_parameters(shape)`: the number of parameters of a decoder, by part. `shape` is a dictionary like that of
{{model}}: `{{shape_words}}`.

It returns a dictionary of whole numbers for the **whole model**, with the keys `"embedding"`, `"attention"`, `"mlp"`,
`"norms"` and `"head"`.

- **Attention** has four matrices. The query and output matrices have `heads` heads of `head_dim` numbers; the key and value
  matrices have only `kv_heads`. `heads * head_dim` can differ from `hidden`. {{biases_words}}
- **MLP:** from `hidden` to `ffn` and back. If `"gated"` is true, there is a third matrix of the same size as the first.
- **Norms** are RMSNorms, with one number per feature: two in every layer and one at the end. Positions are rotary and have no
  parameters.
- **Head:** maps to the vocabulary, without a bias. If `"tied"` is true, it *is* the embedding, so the head has 0.

The check compares your numbers with the sizes of real tensors, created without memory (`device="meta"`).""",
    hints=(
        "Which of the four attention matrices become smaller when several query heads share one key and value head?",
        "Write down the shape of every matrix of one layer, multiply, add, and multiply by the number of layers. Then add what "
        "exists once: the embedding, the last norm and the head.",
        "`q = hidden * heads * head_dim`, `kv = 2 * hidden * kv_heads * head_dim`, `o = heads * head_dim * hidden`; `mlp = (3 if "
        "gated else 2) * hidden * ffn`; `norms = (2 * layers + 1) * hidden`.",
    ),
    allowed="the standard library and numpy.",
    hides=functions("memory", "count_params", "params_by_part", "layer_params"),
    params=_count("llama3-8b", "none"),
    vary=lambda draw: _count(draw.choice(("qwen2.5-0.5b", "qwen2.5-7b", "qwen2.5-72b")), "qkv"),
    structural="biases",
    probe=rows,
)

_LOGS = {
    "events": """with one row per event, in order of time: `"what"` is `"alloc"` or `"free"`, `"name"` is the block and `"time"` the
time. An allocation also has `"bytes"` and a `"kind"`. A name can be reused after it was freed. Rows with the same time take
effect in their order, and the level after each of them counts""",
    "lifetimes": """with one row per block, in no order: `"name"`, `"kind"`, `"bytes"`, and its lifetime, from `"born"` until just
before `"died"`; `None` means that it was never freed. A block born at the time another dies can take its place""",
}
KINDS = ("weights", "gradients", "moments", "activations", "work space")


def training_log(draw: random.Random, layers: int, form: str, unit: int = 2**20) -> list[dict[str, Any]]:
    """Allocations of two small training steps, as rows of events or of lifetimes."""
    clock = 0.0
    blocks: list[dict[str, Any]] = []

    def tick() -> float:
        nonlocal clock
        clock = round(clock + draw.choice((0.5, 1.0, 1.5, 2.0)), 1)
        return clock

    def born(name: str, kind: str, low: int, high: int) -> dict[str, Any]:
        block = {"name": name, "kind": kind, "bytes": unit * draw.randint(low, high), "born": tick(), "died": None}
        blocks.append(block)
        return block

    weights = [born(f"w{layer}", "weights", 20, 40) for layer in range(layers)]
    moments: list[dict[str, Any]] = []
    for _ in range(2):
        alive = [born(f"a{layer}", "activations", 30, 90) for layer in range(layers)]
        grads = []
        for layer in reversed(range(layers)):
            work = born("scratch", "work space", 10, 60)
            size = weights[layer]["bytes"] // unit
            grads.append(born(f"g{layer}", "gradients", size, size))
            work["died"] = tick()
            alive[layer]["died"] = clock
        if not moments:
            moments = [born(f"m{layer}", "moments", 40, 80) for layer in range(layers)]
        for grad in grads:
            grad["died"] = tick()
    return as_events(blocks) if form == "events" else draw.sample(blocks, len(blocks))


def event(time: float, what: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a log of events: what happens to a block at a time, "alloc" or "free"."""
    keys = ("name", "kind", "bytes") if what == "alloc" else ("name",)
    return {"time": time, "what": what, **{key: block[key] for key in keys}}


def as_events(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same as rows of allocations and frees; blocks that die at a time come before those born then."""
    rows = [(block["born"], 1, at, event(block["born"], "alloc", block)) for at, block in enumerate(blocks)]
    dead = [(at, block) for at, block in enumerate(blocks) if block["died"] is not None]
    rows += [(block["died"], 0, at, event(block["died"], "free", block)) for at, block in dead]
    return [row for *_, row in sorted(rows, key=lambda each: each[:3])]


def _log(form: str, seed: str) -> dict[str, Any]:
    log = training_log(random.Random(seed), 2, form)
    shown = "\n".join(f"    {row}" for row in log[:4])
    return {"log": form, "log_words": _LOGS[form], "rows": log, "count": len(log), "shown": shown}


PEAK_NOT_SUM = Card(
    id="peak-not-sum",
    chapter="02",
    title="The peak, not the sum",
    **Worth(points=10, minutes=10, difficulty=2, importance=5),
    answers=("peak",),
    text="""Write `peak(log)`, which finds the moment at which a job needs the most memory, and what fills it then. A log is a list of
dictionaries, {{log_words}}. The log of two steps of a small model is in
`params("peak-not-sum").rows`. It has {{count:int}} rows and begins:

```text
{{shown}}
```

`peak(log)` returns `(bytes, time, kind)`:

- `bytes`: the most bytes alive at any moment;
- `time`: the **first** time at which that many were alive;
- `kind`: the kind that held most of them, all blocks of a kind together.

Nothing was alive before the log began. All numbers must be exact.""",
    hints=(
        "If you saw only the last row of the log, how many bytes would be alive?",
        "Go through the moments in order and keep the bytes alive of each kind. Whenever the total exceeds all earlier totals, "
        "record the total, the time and the largest kind. A free has only a name, so remember what the name refers to.",
        "`alive[name] = (kind, bytes)` on an allocation, `alive.pop(name)` on a free; `total = sum(…)`; `if total > best: best, when, "
        "held = total, time, kinds_of(alive)`. With lifetimes, the total rises only when a block is born, so look at each `born`.",
    ),
    allowed="the standard library and numpy.",
    params=_log("events", "log 7"),
    vary=lambda draw: _log("lifetimes", str(draw.random())),
    structural="log",
    probe=rows,
)


def _predict(model: str, seq: int) -> dict[str, Any]:
    one = facts.model(model)
    sizes = {"params": float(one.params), "hidden": int(one.hidden), "layers": int(one.layers)}
    return {"model": model, "seq": seq, **sizes}


PREDICT_ACTIVATIONS = Card(
    id="predict-activations",
    chapter="02",
    title="Prediction: what does one sequence keep?",
    **Worth(points=2, minutes=5, difficulty=2, importance=4),
    **PREDICTION,
    answers=("activations_interval",),
    text="""Before you compute anything, give an interval in GB for the activations of one forward pass. You learn more from a
measurement if you have committed to a number first.

- **Job:** {{model}} ({{params:count}} parameters, {{layers:int}} layers, hidden size {{hidden:int}}), one sequence of
  {{seq:int}} tokens, bf16, fused attention, no dropout, nothing recomputed.
- **Question:** how many GB do its layers keep for the backward pass, without embeddings and logits?
- `activations_interval()` returns `(low, high)`, with `high` at most four times `low`.

You get the points for a valid interval, whether or not it contains the answer.""",
    hints=(
        "How many numbers does a layer keep for one token: about as many as the hidden size, or many times that?",
        "Count the tensors of shape (tokens, hidden) in one layer: the inputs of each matrix, norm and activation function. The "
        "MLP's are wider.",
        "Tokens × layers × hidden × 2 bytes × the number of such tensors, which is between ten and thirty.",
    ),
    allowed="mental arithmetic only; the check then shows the number.",
    params=_predict("llama3-70b", 8192),
    vary=lambda draw: _predict(
        draw.choice(("llama3-8b", "llama3-70b", "mistral-7b", "llama2-13b")), draw.choice((2048, 4096, 16384))
    ),
)
