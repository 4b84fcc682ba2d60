"""Update rules from scratch: SGD with momentum, Adam, AdamW and Lion, each equal to torch's (Lion: to its paper) step
by step.

The first half has Adam's formulas as functions of plain tensors; the second half keeps their state between steps. A
step that meets a gradient with NaN or infinity raises FloatingPointError and changes nothing; `clipping.Guard` skips
and counts instead.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from course_lib.estimate.units import require

# --- Adam's formulas -----------------------------------------------------------------------------


def adam_moments(
    m: Tensor, v: Tensor, grad: Tensor, betas: tuple[float, float] = (0.9, 0.999)
) -> tuple[Tensor, Tensor]:
    """Running means of the gradient and of its square. Kingma & Ba (2015), algorithm 1."""
    return betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad.square()


def bias_corrected(m: Tensor, v: Tensor, step: int, betas: tuple[float, float] = (0.9, 0.999)) -> tuple[Tensor, Tensor]:
    """The moments divided by 1 − β^step, because they began at 0. The first step has number 1."""
    if step < 1:
        raise ValueError(f"step is {step}; Adam counts from 1, and at 0 the correction divides by zero.")
    return m / (1 - betas[0] ** step), v / (1 - betas[1] ** step)


def adamw_update(
    param: Tensor,
    grad: Tensor,
    m: Tensor,
    v: Tensor,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """(param, m, v) after one update. The decay does not pass through the moments: Loshchilov & Hutter (2019),
    algorithm 2."""
    m, v = adam_moments(m, v, grad, betas)
    mean, square = bias_corrected(m, v, step, betas)
    return param - lr * weight_decay * param - lr * mean / (square.sqrt() + eps), m, v


# --- optimizers with state -----------------------------------------------------------------------


class Optimizer:
    """Groups of tensors with settings, and the state that a rule keeps for each tensor.

    `params` is tensors, or groups: dicts with "params" and any setting of the rule. A subclass names its settings in
    `defaults` and writes `update`. Tensors without a gradient are left alone.
    """

    defaults: ClassVar[Mapping[str, object]] = {}

    def __init__(self, params: Iterable[Tensor] | Iterable[dict], **settings: object) -> None:
        given = list(params)
        groups: list[Any] = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.groups = [{**self.defaults, **settings, **group, "params": list(group["params"])} for group in groups]
        tensors = [tensor for group in self.groups for tensor in group["params"]]
        if not tensors:
            raise ValueError(f"{type(self).__name__} got no parameters.")
        if len({id(tensor) for tensor in tensors}) < len(tensors):
            raise ValueError(
                f"{type(self).__name__} got a parameter twice: it would be updated twice a step. Is it tied?"
            )
        for group in self.groups:
            self._require(group)
        self.state: dict[Tensor, dict[str, Any]] = {tensor: {} for tensor in tensors}

    def _require(self, group: dict[str, Any]) -> None:
        if unknown := set(group) - set(self.defaults) - {"params"}:
            raise ValueError(
                f"{type(self).__name__} has no setting {min(unknown)!r}; it has {', '.join(self.defaults)}."
            )
        for name in self.defaults:
            if name in ("lr", "weight_decay", "eps"):
                require(name, group[name], least=0, open_below=False)
                if group[name] == float("inf"):
                    raise ValueError(f"{name} is infinite; it must be a finite number.")
            elif name == "betas" and len(group[name]) != 2:
                raise ValueError(f"betas is {group[name]}; give two, one for each running mean.")
            elif name in ("momentum", "betas"):
                for share in group[name] if name == "betas" else [group[name]]:
                    if not 0 <= share < 1:
                        raise ValueError(f"{name} is {group[name]}; a running mean needs at least 0 and less than 1.")

    def update(self, param: Tensor, grad: Tensor, state: dict[str, object], group: Mapping[str, object]) -> None:
        """Change `param` and `state` in place, by one step."""
        raise NotImplementedError

    @property
    def grads(self) -> list[Tensor]:
        """The gradients that are there, in the order of the parameters."""
        return [tensor.grad for tensor in self.state if tensor.grad is not None]

    @torch.no_grad()
    def step(self) -> None:
        """One update of every tensor that has a gradient. FloatingPointError, and no change, if one is not finite."""
        for place, tensor in enumerate(self.state):
            if tensor.grad is not None and not bool(tensor.grad.isfinite().all()):
                raise FloatingPointError(
                    f"The gradient of parameter {place}, shape {tuple(tensor.shape)}, has NaN or infinity. Nothing "
                    "was changed; skip this step and count it, as Guard does."
                )
        for group in self.groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    state = self.state[tensor]
                    state["step"] = state.get("step", 0) + 1
                    self.update(tensor, tensor.grad, state, group)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for tensor in self.state:
            tensor.grad = None

    def set_lr(self, lr: float) -> None:
        """The learning rate of every group from now on, as a schedule sets it before a step."""
        for group in self.groups:
            group["lr"] = require("lr", lr, least=0, open_below=False)

    def state_bytes(self) -> int:
        """Bytes of all tensors that the rule keeps between steps."""
        return sum(kept.nbytes for state in self.state.values() for kept in state.values() if isinstance(kept, Tensor))


class SGD(Optimizer):
    """Down the gradient, with heavy-ball momentum if asked for; weight decay is added to the gradient (L2), as in
    torch."""

    defaults = {"lr": 1e-3, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False}

    def _require(self, group: dict[str, object]) -> None:
        super()._require(group)
        if group["nesterov"] and not group["momentum"]:
            raise ValueError(
                "nesterov=True looks ahead along the momentum, and momentum is 0; set a momentum such as 0.9."
            )

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """velocity ← momentum · velocity + g; θ ← θ − γ · velocity. The first velocity is g itself."""
        grad = grad + group["weight_decay"] * param
        if momentum := group["momentum"]:
            state["velocity"] = momentum * state["velocity"] + grad if "velocity" in state else grad.clone()
            grad = grad + momentum * state["velocity"] if group["nesterov"] else state["velocity"]
        param -= group["lr"] * grad


class Adam(Optimizer):
    """Kingma & Ba (2015). Weight decay is added to the gradient, and so is divided by √v with it."""

    defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "correct": True}
    decoupled: ClassVar[bool] = False

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step of Adam; with `correct=False` the moments keep their bias to zero, to see what that does."""
        zero = torch.zeros_like(param)
        decay, betas = group["weight_decay"], group["betas"]
        if self.decoupled:
            param *= 1 - group["lr"] * decay
        else:
            grad = grad + decay * param
        m, v = adam_moments(state.get("m", zero), state.get("v", zero), grad, betas)
        state.update(m=m, v=v)
        mean, square = bias_corrected(m, v, state["step"], betas) if group["correct"] else (m, v)
        param -= group["lr"] * mean / (square.sqrt() + group["eps"])


class AdamW(Adam):
    """Adam with decoupled weight decay. Loshchilov & Hutter (2019)."""

    defaults = {**Adam.defaults, "weight_decay": 0.01}
    decoupled = True


class Lion(Optimizer):
    """The sign of an interpolated momentum: every number moves by exactly the learning rate. Chen et al. (2023),
    algorithm 2."""

    defaults = {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.0}

    def update(self, param: Tensor, grad: Tensor, state: dict[str, Any], group: Mapping[str, Any]) -> None:
        """One step; the one tensor of state is half of Adam's."""
        m, (fast, slow) = state.get("m", torch.zeros_like(param)), group["betas"]
        direction = (fast * m + (1 - fast) * grad).sign()
        param -= group["lr"] * (direction + group["weight_decay"] * param)
        state["m"] = slow * m + (1 - slow) * grad


RULES: Mapping[str, type[Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "lion": Lion}


def build(name: str, params: Iterable[Tensor] | Iterable[dict], **settings: object) -> Optimizer:
    """The optimizer called `name`: "sgd", "adam", "adamw" or "lion"."""
    if name not in RULES:
        raise ValueError(f"There is no optimizer {name!r}; choose from {', '.join(RULES)}.")
    return RULES[name](params, **settings)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """The usual two groups: matrices decay, vectors (biases, norms) do not. A tied matrix is in its group once."""
    require("weight_decay", weight_decay, least=0, open_below=False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    split = [[each for each in trained if (each.ndim >= 2) is matrix] for matrix in (True, False)]
    return [
        {"params": part, "weight_decay": decay} for part, decay in zip(split, (weight_decay, 0.0), strict=True) if part
    ]
