"""How chapter 04 calls answers: optimizers step by step, shards of one gradient, a training loop. torch loads with the
first call."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def gradients_of(spec: Mapping[str, Any]) -> tuple[list[Any], list[list[Any]]]:
    """First parameters, and the gradients of every step (None where the description says "missing")."""
    import torch

    coin, dtype = torch.Generator().manual_seed(spec["seed"]), getattr(torch, spec["dtype"])

    def draw(shape: tuple[int, ...]) -> Any:
        return torch.randn(shape, generator=coin, dtype=torch.float64)

    shapes = [tuple(shape) for shape in spec["shapes"]]
    parameters = [draw(shape).to(dtype) for shape in shapes]
    drift = [draw(shape) for shape in shapes]
    steps = [
        [((mean + draw(shape)) * spec["size"]).to(dtype) for mean, shape in zip(drift, shapes, strict=True)]
        for _ in range(spec["steps"])
    ]
    if spec.get("twins"):  # the second parameter and its gradients equal the first one's
        for row in (parameters, *steps):
            row[1] = row[0].clone()
    for step, index in spec.get("missing", ()):
        steps[step][index] = None
    for index in spec.get("silent", ()):  # parameters whose gradient is always zero
        steps = [[*row[:index], torch.zeros_like(row[index]), *row[index + 1 :]] for row in steps]
    return parameters, steps


def rates(spec: Mapping[str, Any]) -> list[float]:
    """The learning rate of every step; it may be zero in the first one, as a warm-up begins."""
    lr, falls, from_zero = spec["lr"], spec.get("falls", 1.0), spec.get("from_zero", False)
    return [lr * falls**step * (step > 0 or not from_zero) for step in range(spec["steps"])]


def trajectory(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """Parameters after every step, the tensors left in the states, and how many inputs were modified.

    `case.args = (description,)`: see `gradients_of`, with "lr", "betas", "eps" and "weight_decay".
    """
    (spec,) = case.args
    parameters, steps = gradients_of(spec)
    states = [State() for _ in parameters]
    rest, after, spoilt = (tuple(spec["betas"]), spec["eps"], spec["weight_decay"]), [], 0
    with own_optimizer():
        for lr, gradients in zip(rates(spec), steps, strict=True):
            for at, (state, gradient) in enumerate(zip(states, gradients, strict=True)):
                before, given = parameters[at].clone(), None if gradient is None else gradient.clone()
                found = answer(parameters[at], gradient, state, lr, *rest)
                spoilt += not parameters[at].equal(before) or not (given is None or gradient.equal(given))
                if not hasattr(found, "equal"):
                    return {"parameters": [found], "state": [], "spoilt": spoilt}
                parameters[at] = found.detach()  # not a copy: a later call must leave it as it is
                after.append(found.detach().clone())
    return {"parameters": after, "state": _tensors(states), "spoilt": spoilt}


def _tensors(value: object) -> list[object]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for each in value for tensor in _tensors(each)]
    return [value] if hasattr(value, "element_size") else []


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


def setting(spec: Mapping[str, Any]) -> tuple[Any, Any, object, list[Any]]:
    """Model, optimizer, schedule and micro-batches of a description; the same ones every time, in double precision.

    "updates" lists for each update its micro-batches, each a pair (length, number of targets that do not count).
    """
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


def trained(answer: Answer, case: Case, comm: Comm | None = None) -> Any:
    """What the answer returns, and the model's weights after it; `case.args = (description,)`."""
    (spec,) = case.args
    model, optimizer, schedule, updates = setting(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a schedule that steps before the optimizer is a mistake that the judge names
        losses = answer(model, optimizer, schedule, updates, spec["limit"])
    return {"losses": losses, "weights": [parameter.detach() for parameter in model.parameters()]}


def black_box(spec: Mapping[str, Any], lr: float, decay: float) -> object:
    """A step function of an optimizer of unknown kind: "kind", "betas", "eps", "skips" (zero gradients), "late" (decays
    after the update)."""
    import torch

    one, two = spec["betas"]
    state: dict[str, Any] = {"t": 0, "m": 0.0, "v": 0.0}

    def step(parameter: object, gradient: object) -> object:
        p, g = torch.as_tensor(parameter, dtype=torch.float64), torch.as_tensor(gradient, dtype=torch.float64)
        if spec["skips"] and not g.any():
            return p.clone()
        g = g + decay * p if spec["kind"] == "l2" else g
        state["t"] += 1
        state["m"], state["v"] = one * state["m"] + (1 - one) * g, two * state["v"] + (1 - two) * g * g
        below = (state["v"] / (1 - two ** state["t"])).sqrt() + spec["eps"]
        after = p - lr * state["m"] / (1 - one ** state["t"]) / below
        amount = {"decoupled": lr * decay, "unscaled": decay}.get(spec["kind"], 0.0)
        return after - amount * (after if spec["late"] else p)

    return step


def told_apart(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """What the answer says of each optimizer; `case.args = (descriptions,)`."""
    (specs,) = case.args
    words = []
    for spec in specs:
        calls: list[int] = []

        def build(lr: float, decay: float, spec: Any = spec, calls: list[int] = calls) -> object:
            calls.append(1)
            if len(calls) > 20:
                raise RuntimeError("build was called more than 20 times for one answer.")
            return black_box(spec, lr, decay)

        words.append(answer(build))
    return words
