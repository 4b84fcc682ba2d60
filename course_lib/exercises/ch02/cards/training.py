"""Exercises of chapter 02 on a training step: what is alive when, the loss in chunks, graphs that were kept alive."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.ch02.cards.core import shape_of
from course_lib.exercises.ch02.probes import cross_entropy, training_step
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, Rows, Tensor, Word
from course_lib.units import GB

PHASES = ("load", *(f"{phase} {step}" for step in (1, 2, 3) for phase in ("forward", "backward", "step")))
_BETWEEN = {
    "set to None": "After each step the gradients are **set to None**, which frees their memory until the next backward pass.",
    "zeroed": "After each step the gradients are **filled with zeros**, so they keep their memory once allocated.",
}


def job(params: float, activations: float, work: float) -> dict[str, float]:
    """Bytes of a job with 16-bit weights and gradients, an fp32 master copy and Adam's two moments."""
    state = {"weights": 2.0 * params, "grads": 2.0 * params, "moments": 12.0 * params}
    return {**state, "activations": activations, "work": work}


def _spike(between: str, params: float, activations: float, work: float, memory: float) -> dict[str, Any]:
    one = job(params, activations, work)
    named = {f"{name}_bytes": value for name, value in one.items()}
    stated = {"job": one, "memory": memory, "params": params, **named}
    return {"grads_between": between, "between_words": _BETWEEN[between], **stated}


def _spike_variant(draw: random.Random) -> Mapping[str, Any]:
    params, activations = draw.choice((1.5e9, 2e9, 3e9)), draw.choice((26, 30)) * GB
    second = 16 * params + activations  # bytes at the end of the second forward pass
    return _spike("zeroed", params, activations, draw.choice((1.5, 2.0)) * GB, second - draw.choice((1, 2)) * GB)


FIRST_STEP_SPIKE = Card(
    id="first-step-spike",
    chapter="02",
    title="The second step is not the first",
    **Worth(points=15, minutes=15, difficulty=3, importance=5),
    kind="more",
    answers=("timeline", "dies_at"),
    text="""Find out in which phase a job runs out of memory. One device runs three training steps; `job` is a dictionary of bytes with
`"weights"`, `"grads"`, `"moments"` (everything the optimizer keeps, including its master copy), `"activations"` (of one
forward pass) and `"work"`.

- Loading allocates the weights.
- A forward pass adds activations until all of them exist.
- A backward pass frees activations from the last layer to the first, while gradients grow evenly: half of them exist when half
  of the activations are gone. Gradients are allocated in the first backward pass that needs them.
- The optimizer allocates its state in its **first** step, never frees it, and needs `"work"` bytes during every step.
- {{between_words}}

Write two functions:

- `timeline(job)`: ten numbers, the bytes alive at the **worst moment** of `"load"`, `"forward 1"`, `"backward 1"`, `"step 1"`,
  `"forward 2"`, … `"step 3"`.
- `dies_at(job, memory)`: the name of the first phase that needs more than `memory` bytes, or `None` if all fit.

The visible job has {{params:count}} parameters with Adam in mixed precision: {{weights_bytes:gb}} of weights,
{{grads_bytes:gb}} of gradients, {{moments_bytes:gb}} of optimizer state, {{activations_bytes:gb}} of activations and
{{work_bytes:gb}} of work space, on a device with {{memory:gb}}. Numbers within 0.1 % pass.""",
    hints=(
        "Which buckets exist before the first optimizer step, and which exist from then on?",
        "For each phase, list what is alive throughout it, then add what is allocated and freed inside. Where activations shrink as "
        "gradients grow, the worst moment is at one of the two ends.",
        "With gradients set to None: forward = weights + kept + activations, backward = weights + kept + max(activations, grads), "
        "step = weights + grads + moments + work, where kept is 0 in step 1 and `moments` afterwards. Zeroed gradients stay allocated.",
    ),
    allowed="the standard library and numpy.",
    returns=Rows(ListOf(Number("bytes"), len(PHASES), what="phase"), Maybe(Word(PHASES))),
    params=_spike("set to None", 4e9, 24 * GB, 1 * GB, 78 * GB),
    vary=_spike_variant,
    structural="grads_between",
    probe=rows,
)

_REDUCTIONS = {"mean": "the **mean** over the tokens that count", "sum": "the **sum** over the tokens that count"}


def _loss(reduction: str, model: str, tokens: int, chunks: int) -> dict[str, Any]:
    shape = shape_of(model)
    logits = 4.0 * tokens * shape["vocab"]
    sizes = {"tokens": tokens, "chunks": chunks, "vocab": shape["vocab"], "hidden": shape["hidden"]}
    stated = {"model": model, **sizes, "logits": logits, "chunk": logits / chunks}
    return {"reduction": reduction, "reduction_words": _REDUCTIONS[reduction], **stated}


def _loss_variant(draw: random.Random) -> Mapping[str, Any]:
    model = draw.choice(("qwen2.5-7b", "llama3.2-1b", "llama3-70b"))
    return _loss("sum", model, draw.choice((4096, 16_384)), draw.choice((8, 32)))


CHUNKED_CROSS_ENTROPY = Card(
    id="chunked-cross-entropy",
    chapter="02",
    title="A loss that never holds the logits",
    **Worth(points=25, minutes=25, difficulty=4, importance=5),
    kind="more",
    answers=("chunked_cross_entropy",),
    text="""Compute a language model's loss in chunks, so that the logits never exist as a whole. The logits of {{tokens:int}} tokens
over the {{vocab:int}} entries of {{model}}'s vocabulary take {{logits:gb}} in fp32, and a plain cross-entropy creates two or
three tensors of that size. In {{chunks:int}} chunks, each takes {{chunk:gb}}.

- `chunked_cross_entropy(hidden, weight, targets, chunks)` returns the loss as a scalar tensor: {{reduction_words}} of
  `-log softmax(hidden @ weight.T)[target]`.
- Shapes: `hidden` (tokens, width), `weight` (vocabulary, width), `targets` (tokens,) with whole numbers. A token with target
  -100 does not count.
- **Memory.** Cut the tokens into `chunks` parts of nearly equal size. Forward and backward, never keep more than a few times
  `tokens * vocabulary / chunks` numbers.
- **Gradients.** `loss.backward()` gives `hidden` and `weight` the gradients of the plain loss, scaled by whatever multiplies
  the loss. One of the two may need no gradient; if neither does, return the loss alone.
- **Overflow.** Where the plain loss is finite, so is yours.""",
    hints=(
        "If a loop adds up the losses of chunks, what does autograd keep of each chunk until the backward pass?",
        "There are two ways. Recompute each chunk in the backward pass, with a checkpoint around the chunk's loss. Or compute the "
        "chunk's share of both gradients while its logits exist (softmax minus one-hot), keep only those shares, and multiply them "
        "by the incoming gradient. Divide by the number of tokens that count, not by the number of chunks.",
        "`from torch.utils.checkpoint import checkpoint`; `sum(checkpoint(part, h, weight, t, use_reentrant=False) for h, t in "
        "zip(hidden.chunk(chunks), targets.chunk(chunks)))` with `part = lambda h, w, t: F.cross_entropy(h @ w.T, t, "
        "reduction='sum')`; divide by `(targets != -100).sum()` where the mean is required.",
    ),
    allowed="everything in torch, including `torch.utils.checkpoint`.",
    returns=DictOf(
        {
            "loss": Tensor("a tensor with one number"),
            "graph": Anything(),
            **{name: Maybe(Tensor()) for name in ("hidden", "weight")},
            "targets": Tensor(),
            "peak": Number("bytes"),
        }
    ),
    params=_loss("mean", "llama3-8b", 8192, 16),
    vary=_loss_variant,
    structural="reduction",
    probe=cross_entropy,
)

_KEPT = """```python
def train_step(model, batches):
    total, tokens = 0.0, 0
    for inputs, targets in batches:
        logits = model(inputs)
        total = total + F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        tokens += (targets != -100).sum().item()
    loss = total / tokens
    loss.backward()
    return loss.item()
```"""

GRAPHS_KEPT_ALIVE = Card(
    id="graphs-kept-alive",
    chapter="02",
    title="The fix that ate the memory",
    **Worth(points=10, minutes=10, difficulty=3, importance=5),
    kind="more",
    form="bug",
    answers=("train_step",),
    text=f"""Repair a fix that was correct in value but ran out of memory. A training library averaged the losses of micro-batches as if
all had the same number of tokens; its fix sums the losses over all tokens and divides once, at the end. The losses were right, but
memory then grew with the number of micro-batches (*meta-pytorch/torchtune, pull requests 1875 and 1917, 2024*). This is the fix:

{_KEPT}

Write `train_step(model, batches)` so that:

- it reads `batches` once (it may be an iterator); each batch is a pair of token numbers and targets, both of shape (rows,
  length), and lengths differ; targets of -100 do not count;
- it returns, as a Python number, the mean loss over **all** tokens that count;
- it leaves the gradients of that mean in the parameters' `.grad`, which are `None` when it is called;
- at most one micro-batch's activations are alive at a time. The check's device has room for **one** forward pass, and the next
  one overwrites it.""",
    hints=(
        "At which line of the code above is the graph of the first micro-batch freed?",
        "`backward()` frees a graph, and gradients add up by themselves. Which number is still unknown after the first micro-batch, "
        "and do you need it then?",
        "In the loop: `loss_sum.backward()` on the micro-batch's sum, `total += loss_sum.item()`, and count the tokens. After the loop: "
        "`p.grad /= tokens` for every parameter that has a gradient.",
    ),
    allowed="everything in torch.",
    returns=DictOf({"loss": Maybe(Anything()), "gradients": ListOf(Maybe(Tensor())), "peak": Number("bytes")}),
    params={"micro_batches": 4},
    vary=lambda draw: {"micro_batches": draw.choice((3, 5, 6))},
    probe=training_step,
)
