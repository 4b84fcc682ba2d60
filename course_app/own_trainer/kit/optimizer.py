"""The part `adamw` as an optimizer over a list of tensors, with the part `learning_rate` as its schedule."""

import torch

from .settings import Settings


class Optimizer(torch.optim.Optimizer):
    """One step for every tensor with a gradient, in place. Its state has the form of torch's own optimizers."""

    def __init__(self, adamw, tensors, s: Settings) -> None:
        super().__init__(list(tensors), {"lr": 0.0, "betas": s.betas, "eps": s.eps, "weight_decay": s.decay})
        self.adamw = adamw

    def set_rate(self, rate: float) -> None:
        """The learning rate of the next update."""
        for group in self.param_groups:
            group["lr"] = rate

    @torch.no_grad()
    def step(self, closure=None):
        """Update every tensor from its gradient."""
        for group in self.param_groups:
            rest = group["lr"], group["betas"], group["eps"], group["weight_decay"]
            for tensor in group["params"]:
                tensor.copy_(self.adamw(tensor.detach(), tensor.grad, self.state[tensor], *rest))

    def state_dict(self) -> dict:
        """As torch's, where every entry is a tensor: numbers become tensors, and each entry of a tuple stands alone."""
        packed = super().state_dict()
        packed["state"] = {place: dict(_flat(state)) for place, state in packed["state"].items()}
        return packed

    def load_state_dict(self, saved: dict) -> None:
        """Go on from a saved state."""
        super().load_state_dict(saved)
        for tensor, state in self.state.items():
            self.state[tensor] = _folded(state)


def _flat(state: dict):
    for name, value in state.items():
        many = isinstance(value, list | tuple)
        for place, each in enumerate(value if many else [value]):
            yield (name, place) if many else name, each if torch.is_tensor(each) else torch.tensor(float(each))


def _folded(state: dict) -> dict:
    """What `_flat` was given: tensors with one number and no dimension become numbers again."""
    found: dict = {}
    for name, value in state.items():
        number = value.item() if value.ndim == 0 else None
        each = value if number is None else int(number) if number == int(number) else number
        if isinstance(name, tuple):
            found[name[0]] = (*found.get(name[0], ()), each)
        else:
            found[name] = each
    return found


class Schedule:
    """Sets the learning rate of each update; the first update is number 1."""

    def __init__(self, learning_rate, s: Settings) -> None:
        self.learning_rate, self.settings, self.done = learning_rate, s, 0

    def next(self) -> float:
        """The learning rate of the next update."""
        self.done += 1
        s = self.settings
        return self.learning_rate(self.done, s.peak, s.floor, s.warmup, s.total)

    def state_dict(self) -> dict:
        """How many updates are done."""
        return {"done": self.done}

    def load_state_dict(self, saved: dict) -> None:
        """Go on from a saved state."""
        self.done = saved["done"]
