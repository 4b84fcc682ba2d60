"""Core exercises of chapter 04: a batch in tokens, AdamW, the learning rate, clipping over shards, the noise scale."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.exercises import Card, Worth
from course_lib.exercises.card_parts import functions
from course_lib.exercises.ch04.probes import clipped, trajectory
from course_lib.exercises.probes import rows
from course_lib.exercises.returns import Anything, DictOf, ListOf, Maybe, Number, Rows, Tensor, TupleOf


def _vary_batch(draw: random.Random) -> Mapping[str, Any]:
    sizes = {"sequences": draw.choice((1, 2, 4)), "accumulated": draw.choice((4, 8)), "ranks": draw.choice((16, 32))}
    return {**sizes, "length": draw.choice((2048, 4096)), "batch": draw.choice((2**21, 2**22))}


BATCH_IN_TOKENS = Card(
    id="batch-in-tokens",
    chapter="04",
    title="How many tokens is one step?",
    text="""Write the batch of one optimizer step in tokens, and invert the formula. You need both whenever the number of GPUs
changes and the optimizer must not notice.

- `tokens_per_step(sequences, accumulated, ranks, length)`: each of `ranks` data-parallel ranks accumulates `accumulated`
  micro-batches of `sequences` sequences, each `length` tokens long. Return the number of tokens in one step.
- `accumulation(batch, sequences, ranks, length)`: return the number of micro-batches that each rank must accumulate so that one
  step has **exactly** `batch` tokens. Return `None` if no whole number gives exactly that.

Shown: {{sequences}} sequences of {{length:int}} tokens, {{accumulated}} micro-batches, {{ranks}} ranks; then a batch of
{{batch:int}} tokens. Counts must be exact.""",
    **Worth(points=4, minutes=5, difficulty=1, importance=5),
    hints=(
        "How many tokens does one rank process before it may step? How many do all ranks process together?",
        "The batch is a product of four numbers. One micro-batch on all ranks is a product of three.",
        "`each = sequences * ranks * length`; the answer is `batch // each` where `batch % each == 0`, else `None`. Zero "
        "micro-batches are no step.",
    ),
    answers=("tokens_per_step", "accumulation"),
    hides=functions("optimizer.batches", "effective_batch", "accumulation_steps"),
    params={"sequences": 2, "accumulated": 8, "ranks": 64, "length": 8192, "batch": 2**22},
    vary=_vary_batch,
    probe=rows,
    returns=Rows(Number("tokens", whole=True), Maybe(Number("micro-batches"))),
)

DECAYS: Mapping[str, str] = {
    "decoupled": "**AdamW**: subtract `lr * decay * parameter` from the parameter, outside the adaptive ratio",
    "l2": "**Adam with L2**: add `decay * parameter` to the gradient, before the moments are updated",
}

WRITE_ADAMW = Card(
    id="write-adamw",
    chapter="04",
    title="An optimizer from its formulas",
    text="""Write the optimizer step that trains almost every language model, from its formulas. If your step differs from PyTorch's,
a run that moves between the two changes its course without an error.

`adamw(parameter, gradient, state, lr, betas, eps, decay)` returns the updated parameter as a new tensor. Moments, bias correction
and update are those of this section. The weight decay is that of {{means}}.

- `state` is a dictionary that belongs to this parameter. It is empty before the first step. What you leave in it comes back
  at the next step.
- If `gradient` is `None`, return `parameter` unchanged: no decay, and the step does not count.
- Keep the dtype. Do not modify `parameter` or `gradient`.
- Memory: `state` holds at most two tensors of the parameter's size, 8 bytes per fp32 parameter.""",
    **Worth(points=20, minutes=25, difficulty=3, importance=5),
    hints=(
        "Which three quantities must survive from one step to the next?",
        "Update both moments first. The first step has number 1; divide each moment by one minus its β to the power of the step. ε is "
        "added to the square root of the corrected second moment.",
        "`t = state.get('t', 0) + 1`; `m = b1 * m + (1 - b1) * g`; `v = b2 * v + (1 - b2) * g * g`; `p - lr * (m / (1 - b1**t)) / "
        "((v / (1 - b2**t)).sqrt() + eps)`; the decay is one more term, here or in `g`.",
    ),
    answers=("adamw",),
    allowed="torch, without `torch.optim`.",
    hides=functions("optimizer.steps", "adam_moments", "bias_corrected", "adamw_update", "build"),
    params={"decay": "decoupled", "means": DECAYS["decoupled"], "steps": 10},
    vary=lambda draw: {"decay": "l2", "means": DECAYS["l2"], "steps": draw.choice((8, 12))},
    structural="decay",
    probe=trajectory,
    returns=DictOf({"parameters": ListOf(Tensor()), "state": ListOf(Tensor()), "spoilt": Number()}),
)

SHAPES: Mapping[str, str] = {
    "cosine": "Then it falls along half a cosine, from `peak` at update `warmup` to `floor` at update `total`.",
    "wsd": "Then it stays at `peak`. Over the last fifth of the `total` updates (update `0.8 * total` to `total`) it falls "
    "along a straight line to `floor`. The warm-up always ends before that.",
}


def _rate_variant(draw: random.Random) -> Mapping[str, Any]:
    shape = {"shape": "wsd", "falls": SHAPES["wsd"], "source": "a schedule of three phases"}
    peak, warmup = draw.choice((3e-4, 2e-4)), draw.choice((1000, 2000))
    return {**shape, "peak": peak, "floor": peak / 10, "warmup": warmup, "total": draw.choice((50_000, 100_000))}


LEARNING_RATE = Card(
    id="learning-rate",
    chapter="04",
    title="The learning rate of any update",
    text="""Write the schedule as a function of the update's number, so that a resumed run continues with the right learning rate.

`learning_rate(step, peak, floor, warmup, total)` returns the learning rate of update number `step`. The first update is number 1.

- During the first `warmup` updates it rises linearly from 0, and reaches `peak` at update `warmup`. `warmup` may be 0; then there
  is no rise, and every rule below holds from the start.
- {{falls}}
- After update `total` it stays at `floor`.

Shown: {{source}}, with `warmup` {{warmup:int}} and `total` {{total:int}}. `step` may be 0; the formula then gives the value before
any update. Values within a millionth pass.""",
    **Worth(points=8, minutes=15, difficulty=2, importance=5),
    hints=(
        "What is the learning rate at update 1, at update `warmup`, and one update after `total`?",
        "Three cases: the ramp, the fall, the rest. In the fall, let s run from 0 to 1 between its two ends.",
        "Cosine: `s = (step - warmup) / (total - warmup)`, `floor + (peak - floor) * (1 + cos(pi * s)) / 2`. Line: `s = (step - 0.8 * "
        "total) / (0.2 * total)`, `peak + (floor - peak) * s`, where s is at least 0. Check `step >= total` first.",
    ),
    answers=("learning_rate",),
    allowed="the standard library.",
    hides=functions("optimizer.schedules", "linear_warmup", "cosine", "wsd"),
    params={
        **{"shape": "cosine", "falls": SHAPES["cosine"], "source": "the published schedule of Llama 3 405B"},
        **{"peak": 8e-5, "floor": 8e-7, "warmup": 8000, "total": 1_200_000},
    },
    vary=_rate_variant,
    structural="shape",
    probe=rows,
    returns=Rows(Number()),
)

CLIP_PIECES = Card(
    id="clip-pieces",
    chapter="04",
    title="One norm for all pieces",
    text="""A gradient is spread over ranks, and clipping it must give the step of one process with the whole gradient. Write the
clipping so that no way of cutting the gradient changes the result.

`clip(shards, limit, replicated)` gets one dictionary of gradients (name to tensor) for each rank. Multiply every gradient by
`min(1, limit / norm)`, in place or by assigning to the dictionaries, and return `norm`: the norm of the **whole** gradient before
clipping. Change nothing else.

- Tensors with the same name on different ranks are different pieces of one gradient. The names in the set `replicated` are the
  exception: there, all ranks hold copies of the same tensor. It counts once, and every copy must be scaled.
- A rank may hold no tensor, and all gradients may be zero. Gradients may have 16 bits: keep their dtype, but compute the norm in fp32.
- If the norm is infinite or NaN, leave all gradients as they are and return the norm, so that the caller can skip the step.

Shown: {{elements}} numbers on {{ranks}} ranks. The norm may be a number or a tensor.""",
    **Worth(points=8, minutes=15, difficulty=3, importance=5),
    hints=(
        "Cut a vector into two pieces with norms 3 and 4. What is the norm of the vector?",
        "Squares add up over pieces, norms do not. Compute one factor from the sum of all squares, then use it everywhere.",
        "Walk over ranks and names; skip a name in `replicated` that was seen before; `total += g.float().square().sum().item()`. Then "
        "`norm = total ** 0.5`; if `math.isfinite(norm) and norm > limit`, multiply every tensor of every rank by `limit / norm`.",
    ),
    answers=("clip",),
    allowed="torch, without `torch.nn.utils`.",
    hides=functions("optimizer.clipping", "global_norm", "squared_norm", "clip_", "clip_sharded_"),
    params={"elements": 40, "ranks": 4},
    vary=lambda draw: {"elements": draw.choice((36, 44, 52)), "ranks": draw.choice((2, 3, 5))},
    probe=clipped,
    returns=DictOf({"norm": Anything("the norm before clipping"), "gradients": ListOf(Tensor())}),
)

NOISE_SCALE = Card(
    id="noise-scale",
    chapter="04",
    title="How noisy is this gradient?",
    text="""Estimate from two batch sizes how noisy the gradient is, and so how large a batch is still useful. Data-parallel training
measures both for free: the squared norm before the all-reduce and after it.

`noise_scale(small, big, small_batch, big_batch)` gets two lists of squared gradient norms, one entry per step, measured at the two
batch sizes (in examples). Return three values:

1. `variance`: an unbiased estimate of the trace of the per-example covariance, tr Σ;
2. `squared`: an unbiased estimate of the squared norm of the true gradient, |G|²;
3. `scale`: the noise scale tr Σ / |G|², the first value over the second; `None` if the second is negative.

- The expected squared norm at batch size n is |G|² + tr Σ / n. Average over the steps before you divide: an average of ratios is biased.
- The first two values may be negative by chance. Return them as they are.

Shown: {{steps}} steps at {{small_batch}} and {{big_batch}} examples. Values within a millionth pass.""",
    **Worth(points=9, minutes=20, difficulty=3, importance=5),
    hints=(
        "You measure at two batch sizes and look for two unknowns. Which two equations do you have?",
        "Subtract the equations: |G|² drops out. Then multiply each by its batch size and subtract again: tr Σ drops out.",
        "With means s and b: `variance = (s - b) / (1 / small_batch - 1 / big_batch)`, `squared = (big_batch * b - small_batch * s) / "
        "(big_batch - small_batch)`.",
    ),
    answers=("noise_scale",),
    allowed="the standard library and numpy.",
    hides=functions("optimizer.noise", "noise_scale_two_batches", "noise_scale_of_samples"),
    params={"small_batch": 8, "big_batch": 64, "steps": 6},
    vary=lambda draw: {"small_batch": draw.choice((4, 16)), "big_batch": draw.choice((128, 256)), "steps": 8},
    probe=rows,
    returns=Rows(TupleOf({"variance": Number(), "squared": Number(), "scale": Maybe(Number())})),
)
