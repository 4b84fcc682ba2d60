"""Small trainings on the course's text, each with one thing done in fewer bits: what it costs in loss, and what it
loses on the way."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from course_chapters import running_example
from course_chapters.ch05.exercises.numbers import LOW_RATE, RATE
from course_lib.model import text, transformer
from course_lib.model.modules import gradient, set_methods
from course_lib.model.precision import LossScaler, StoredAdamW, has_overflow, quantize, round_to

SHAPE = transformer.Config(layers=2, hidden=64, heads=4, seq_len=64, attention="math")
BATCH, WARMUP, FLOOR = 16, 20, 0.01  # sequences of a step; steps; the last learning rate over the highest
STEPS = 200  # of a recorded training


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Where a training rounds. The default is mixed precision as it is mostly done: bf16 copies, fp32 master weights
    and sums."""

    compute: str = "bf16"  # of weights, activations and gradients in forward and backward: "fp32", "bf16" or "fp16"
    storage: str = "master"  # of the weights: one of `precision.STORAGE`
    moments: str | None = None  # format of Adam's moments; None is fp32
    scale: float | str = 1.0  # of the loss: a number, or "dynamic"
    share: int = 1  # micro-batches in the step's batch, by which the loss is divided; one of them is computed
    accumulate: str = "fp32"  # format in which micro-batch gradients are summed
    microbatches: int = 1  # that a step really computes, one after the other
    matmul: tuple[str, str] | None = None  # formats of the inputs of forward and backward matmuls, emulated
    block: str = "none"  # what has a scale of its own there: "none" (no scale at all), "tensor" or "block"
    lr: float = RATE
    seed: int = 0


@dataclass(slots=True)
class Curve:
    """What a training leaves behind: its loss at every step, and how often rounding had the last word."""

    losses: list[float] = field(default_factory=list)  # nats per token, which is a character
    lost: list[float] = field(default_factory=list)  # share of a step's nonzero updates that changed no bit of a weight
    zeros: list[float] = field(default_factory=list)  # share of gradient elements that are exactly zero
    skipped: int = 0  # steps, for an overflow
    bytes_per_parameter: int = 0  # weights and optimizer state

    @property
    def final(self) -> float:
        """Mean loss over the last 20 steps; not a number once the training broke."""
        tail = self.losses[-20:]
        return sum(tail) / len(tail)


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: so small a model is slower on several, and its sums come out alike on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def learning_rate(step: int, steps: int, highest: float) -> float:
    """Linear warm-up, then a cosine from `highest` to a hundredth of it."""
    if step < WARMUP:
        return highest * (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return highest * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)


# Where the batch is one of SHARE micro-batches, together they have the 4 Mi tokens of the course's plan.
SHARE = running_example.BATCH // (BATCH * SHAPE.seq_len)
_SLOW = Recipe(lr=LOW_RATE)
_FP8 = Recipe(compute="fp32", storage="fp32", matmul=("fp8_e4m3", "fp8_e5m2"), share=SHARE)
_FP4 = replace(_FP8, matmul=("fp4_e2m1", "fp4_e2m1"))
RECIPES: Mapping[str, Recipe] = {
    "fp32, low rate": replace(_SLOW, compute="fp32", storage="fp32"),
    "master": _SLOW,
    "nearest": replace(_SLOW, storage="nearest"),
    "stochastic": replace(_SLOW, storage="stochastic"),
    "kahan": replace(_SLOW, storage="kahan"),
    "fp32": Recipe(compute="fp32", storage="fp32"),
    "bf16": Recipe(share=SHARE),
    "fp16": Recipe(compute="fp16", share=SHARE),
    "fp16, loss scaled": Recipe(compute="fp16", share=SHARE, scale="dynamic"),
    "gradients summed in fp32": Recipe(microbatches=16),
    "gradients summed in bf16": Recipe(microbatches=16, accumulate="bf16"),
    "moments in bf16": Recipe(moments="bf16"),
    "moments in fp16": Recipe(moments="fp16"),
    "fp8, no scale": _FP8,
    "fp8, one scale per tensor": replace(_FP8, block="tensor"),
    "fp8, one scale per block": replace(_FP8, block="block"),
    "fp4, one scale per tensor": replace(_FP4, block="tensor"),
    "fp4, one scale per block": replace(_FP4, block="block"),
}


class _Rounded(torch.autograd.Function):
    """x @ w.T with both inputs in a narrow format forward, and the gradient that comes back in another."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, ahead: Callable, back: Callable) -> Tensor:
        x, weight = ahead(x), ahead(weight)
        ctx.save_for_backward(x, weight)
        ctx.back = back
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, weight = ctx.saved_tensors
        grad = ctx.back(grad)
        return grad @ weight, grad.flatten(0, -2).T @ x.flatten(0, -2), None, None


def narrowing(form: str, block: str) -> Callable[[Tensor], Tensor]:
    """A function that brings a tensor to a format and back: without a scale, with one scale, or with one for 32
    neighbors."""
    if block == "none":
        return lambda x: round_to(x, form, saturate=True)
    return lambda x: quantize(x, form, None if block == "tensor" else 32).dequantize()


def _rounded(layer: nn.Linear, ahead: Callable, back: Callable, x: Tensor) -> Tensor:
    return _Rounded.apply(x, layer.weight, ahead, back)


def narrow_matmuls(model: nn.Module, recipe: Recipe) -> None:
    """Let every linear layer but the head read its inputs in the recipe's formats."""
    assert recipe.matmul is not None
    ahead, back = (narrowing(form, recipe.block) for form in recipe.matmul)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear) and name != "head":
            set_methods(layer, forward=partial(_rounded, layer, ahead, back))


@one_thread()
def train(recipe: Recipe = Recipe(), steps: int = STEPS) -> Curve:
    """Train the small transformer for `steps` steps from the same weights on the same characters, rounding as the
    recipe says."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[recipe.compute]
    held = transformer.build(SHAPE, recipe.seed)  # the optimizer's parameters: fp32 tensors with rounded values
    form = recipe.compute if recipe.compute != "fp32" else "bf16"
    optimizer = StoredAdamW(
        held.parameters(), recipe.lr, recipe.storage, form, moments=recipe.moments, seed=recipe.seed
    )
    model = transformer.build(SHAPE, recipe.seed).to(dtype)
    if recipe.matmul:
        narrow_matmuls(model, recipe)
    dynamic = recipe.scale == "dynamic"
    scaler = LossScaler(interval=50, scale=2.0**16 if isinstance(recipe.scale, str) else recipe.scale)
    curve = Curve(bytes_per_parameter=optimizer.bytes_per_parameter)
    for step in range(steps):
        optimizer.lr = learning_rate(step, steps, recipe.lr)
        with torch.no_grad():
            for copy, weight in zip(model.parameters(), held.parameters(), strict=True):
                copy.copy_(weight)
        sums: list[Tensor] = []
        loss = 0.0
        size = BATCH // recipe.microbatches
        for part in range(recipe.microbatches):
            tokens, targets = text.batch(step * recipe.microbatches + part, size, SHAPE.seq_len)
            value = transformer.loss(model(tokens), targets)
            loss += value.item() / recipe.microbatches
            grads = torch.autograd.grad(
                value * (scaler.scale / (recipe.share * recipe.microbatches)), list(model.parameters())
            )
            wide = [grad.float() for grad in grads]
            sums = [round_to(a + b, recipe.accumulate) for a, b in zip(sums, wide, strict=True)] if sums else wide
        curve.losses.append(loss)
        curve.zeros.append(sum(int((g == 0).sum()) for g in sums) / sum(g.numel() for g in sums))
        before = optimizer.updates, optimizer.lost
        overflow = has_overflow(sums)
        if not (dynamic and overflow):
            for weight, grad in zip(held.parameters(), sums, strict=True):
                weight.grad = grad * (recipe.share / scaler.scale)
            optimizer.step()
        if dynamic:
            scaler.update(overflow)
        done = optimizer.updates - before[0]
        curve.lost.append((optimizer.lost - before[1]) / done if done else 0.0)
    curve.skipped = scaler.skipped
    return curve


@one_thread()
def gradients(steps: int = 100) -> list[Tensor]:
    """The fp32 gradients of every parameter at the model's weights after `steps` steps of plain fp32 training, of one
    micro-batch's mean loss."""
    model = transformer.build(SHAPE)
    highest = Recipe().lr
    optimizer = StoredAdamW(model.parameters(), highest, "fp32")
    for step in range(steps + 1):
        optimizer.lr = learning_rate(step, 2 * steps, highest)
        model.zero_grad()
        transformer.loss(
            model(text.batch(step, BATCH, SHAPE.seq_len)[0]), text.batch(step, BATCH, SHAPE.seq_len)[1]
        ).backward()
        if step < steps:
            optimizer.step()
    return [gradient(parameter) for parameter in model.parameters()]
