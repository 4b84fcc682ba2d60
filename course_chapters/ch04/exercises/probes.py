"""How chapter 04 calls answers: optimizers step by step, shards of one gradient, a training loop. torch loads with the
first call."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from course_grader.exercises.probes import CHANGED
from course_grader.exercises.values import copied, tensors_in, unchanged

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LambdaLR

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


class State(dict):
    """One parameter's state: what the answer leaves in it stays, whatever its caller does with its own dictionaries."""


@contextlib.contextmanager
def own_optimizer() -> Iterator[None]:
    """Within: `torch.optim` says that it is what the exercise asks for."""
    import torch.optim as ready

    def off(*_: object, **__: object) -> None:
        raise RuntimeError("torch.optim is what this exercise asks you to write, so it is switched off here.")

    before = ready.Optimizer.__init__
    ready.Optimizer.__init__ = off  # type: ignore[method-assign]
    try:
        yield
    finally:
        ready.Optimizer.__init__ = before  # type: ignore[method-assign]


def gradients_of(
    *,
    seed: int,
    dtype: str,
    shapes: Sequence[Sequence[int]],
    steps: int,
    size: float,
    twins: bool = False,
    missing: Sequence[tuple[int, int]] = (),
    silent: Sequence[int] = (),
    **_: object,
) -> tuple[list[Tensor], list[list[Tensor | None]]]:
    """First parameters, and the gradients of every step (None where it is `missing`)."""
    import torch

    coin, kind = torch.Generator().manual_seed(seed), getattr(torch, dtype)

    def draw(shape: Sequence[int]) -> Tensor:
        return torch.randn(shape, generator=coin, dtype=torch.float64)

    parameters = [draw(shape).to(kind) for shape in shapes]
    drift = [draw(shape) for shape in shapes]
    drawn = [
        [((mean + draw(shape)) * size).to(kind) for mean, shape in zip(drift, shapes, strict=True)]
        for _ in range(steps)
    ]
    if twins:  # the second parameter and its gradients equal the first one's
        for row in (parameters, *drawn):
            row[1] = row[0].clone()
    for index in silent:  # parameters whose gradient is always zero
        for row in drawn:
            row[index] = torch.zeros_like(row[index])
    gradients: list[list[Tensor | None]] = [[*row] for row in drawn]
    for step, index in missing:
        gradients[step][index] = None
    return parameters, gradients


def rates(*, lr: float, steps: int, falls: float = 1.0, from_zero: bool = False, **_: object) -> list[float]:
    """The learning rate of every step; it may be zero in the first one, as a warm-up begins."""
    return [lr * falls**step * (step > 0 or not from_zero) for step in range(steps)]


def trajectory(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Parameters after every step and the tensors left in the states, or CHANGED where an input was written to.

    `case.args = (description,)`: see `gradients_of`, with "lr", "betas", "eps" and "weight_decay".
    """
    (spec,) = case.args
    parameters, steps = gradients_of(**spec)
    states = [State() for _ in parameters]
    rest, after = (tuple(spec["betas"]), spec["eps"], spec["weight_decay"]), []
    with own_optimizer():
        for lr, gradients in zip(rates(**spec), steps, strict=True):
            for at, (state, gradient) in enumerate(zip(states, gradients, strict=True)):
                given = copied((parameters[at], gradient))
                found = answer(parameters[at], gradient, state, lr, *rest)
                if not unchanged(given, (parameters[at], gradient)):
                    return CHANGED
                if not hasattr(found, "equal"):
                    return {"parameters": [found], "state": []}
                parameters[at] = found.detach()  # not a copy: a later call must leave it as it is
                after.append(found.detach().clone())
    return {"parameters": after, "state": tensors_in(states)}


def clipped(answer: Answer, case: Any, comm: Comm | None = None) -> object:
    """The norm that the answer returns and the shards that it leaves behind;
    `case.args = (shards, limit, replicated)`."""
    shards, limit, replicated = case.args
    shards = [{name: tensor.clone() for name, tensor in shard.items()} for shard in shards]
    given, names = list(shards), set(replicated)
    norm = answer(given, limit, names)
    left = [shard.get(name) for shard, whole in zip(shards, case.args[0], strict=True) for name in whole]
    if (len(given), names) != (len(shards), set(replicated)):
        case.args = given, limit, names  # the caller compares, and sees what became of them
    return {"norm": norm.item() if hasattr(norm, "numel") and norm.numel() == 1 else norm, "gradients": left}


Updates = list[list[tuple[int, int]]]  # of each update, its micro-batches: length, targets that do not count


class Loop(TypedDict):
    """The description of a training loop."""

    seed: int
    optimizer: str
    updates: Updates
    limit: float


def setting(spec: Loop) -> tuple[nn.Module, Optimizer, LambdaLR, list[list[tuple[Tensor, Tensor]]]]:
    """Model, optimizer, schedule and micro-batches of a description; the same ones every time, in double precision."""
    import torch
    from torch import nn

    coin, words, rows = torch.Generator().manual_seed(spec["seed"]), 11, 2
    model = nn.Sequential(nn.Embedding(words, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, words)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=coin, dtype=torch.float64))
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    }
    optimizer = kinds[spec["optimizer"]](model.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda updates: 1 / (1 + updates))
    updates = []
    for sizes in spec["updates"]:
        pairs = []
        for length, ignored in sizes:
            inputs, targets = torch.randint(0, words, (2, rows, length), generator=coin).unbind()
            targets = targets.clone()
            targets.view(-1)[:ignored] = -100
            pairs.append((inputs, targets))
        updates.append(pairs)
    return model, optimizer, schedule, updates


def trained(answer: Answer, case: Case, comm: Comm | None = None) -> dict[str, object]:
    """What the answer returns, and the model's weights after it; `case.args = (description,)`."""
    (spec,) = case.args
    model, optimizer, schedule, updates = setting(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a schedule that steps before the optimizer is a mistake that the judge names
        losses = answer(model, optimizer, schedule, updates, spec["limit"])
    return {"losses": losses, "weights": [parameter.detach() for parameter in model.parameters()]}


def black_box(
    lr: float, decay: float, *, kind: str, betas: tuple[float, float], eps: float, skips: bool, late: bool
) -> object:
    """A step function of an optimizer of unknown kind; it `skips` zero gradients, or decays `late`, after the
    update."""
    import torch

    one, two = betas
    steps, mean = 0, torch.zeros((), dtype=torch.float64)
    square = mean

    def step(parameter: object, gradient: object) -> object:
        nonlocal steps, mean, square
        p, g = torch.as_tensor(parameter, dtype=torch.float64), torch.as_tensor(gradient, dtype=torch.float64)
        if skips and not g.any():
            return p.clone()
        g = g + decay * p if kind == "l2" else g
        steps += 1
        mean, square = one * mean + (1 - one) * g, two * square + (1 - two) * g * g
        below = (square / (1 - two**steps)).sqrt() + eps
        after = p - lr * mean / (1 - one**steps) / below
        amount = {"decoupled": lr * decay, "unscaled": decay}.get(kind, 0.0)
        return after - amount * (after if late else p)

    return step


def told_apart(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What the answer says of each optimizer; `case.args = (descriptions,)`."""
    (specs,) = case.args
    words = []
    for spec in specs:
        calls: list[int] = []
        made = partial(black_box, **spec)

        def build(
            lr: float, decay: float, make: Callable[[float, float], object] = made, calls: list[int] = calls
        ) -> object:
            calls.append(1)
            if len(calls) > 20:
                raise RuntimeError("build was called more than 20 times for one answer.")
            return make(lr, decay)

        words.append(answer(build))
    return words
