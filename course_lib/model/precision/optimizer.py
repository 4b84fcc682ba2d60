"""AdamW that stores its weights in few bits, and counts the updates that rounding discards."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from course_lib.estimate.units import require
from course_lib.model.precision.number_formats import number_format
from course_lib.model.precision.rounding import round_to

STORAGE = ("fp32", "master", "nearest", "stochastic", "kahan")


class StoredAdamW:
    """AdamW with fp32 moments, and weights stored in one of five ways. The parameters themselves are fp32 tensors.

    "fp32": nothing is rounded. "master": the optimizer keeps fp32 weights, and the parameters are a copy rounded to
    `form`. "nearest" and "stochastic": there is no master copy, and every update is rounded to `form`. "kahan": as
    "nearest", with a second number in `form` that carries what rounding dropped into the next step. Where `moments` is
    given, both moments are rounded to that format after every step. Gradients that are not finite make weights NaN:
    check them first, with `has_overflow`.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        storage: str = "master",
        form: str = "bf16",
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        moments: str | None = None,
        seed: int = 0,
    ) -> None:
        if storage not in STORAGE:
            raise ValueError(f"storage is {storage!r}; choose from {', '.join(STORAGE)}.")
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError("There are no parameters to optimize.")
        require("lr", lr, least=0.0, open_below=False)
        self.lr, self.storage, self.form, self.moments = lr, storage, number_format(form), moments
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.coin = torch.Generator().manual_seed(seed)
        self.steps = 0
        self.updates = self.lost = 0  # nonzero changes of a weight, and those of them that rounding discarded
        self.held = [parameter.detach().clone() for parameter in self.parameters]  # what an update is added to
        if storage not in ("fp32", "master"):
            self.held = [round_to(weight, self.form) for weight in self.held]
        self.dropped = [torch.zeros_like(weight) for weight in self.held]
        self.first, self.second = ([torch.zeros_like(weight) for weight in self.held] for _ in range(2))
        self._publish()

    @property
    def bytes_per_parameter(self) -> int:
        """Weights, their fp32 master copy or compensation, and both moments; gradients are not the optimizer's."""
        narrow = self.form.bits // 8
        weights = {"fp32": 4, "master": narrow + 4, "kahan": 2 * narrow}.get(self.storage, narrow)
        return weights + 2 * (4 if self.moments is None else number_format(self.moments).bits // 8)

    @torch.no_grad()
    def step(self) -> None:
        """One step with the parameters' gradients, in fp32; a parameter without a gradient stays as it is."""
        self.steps += 1
        for place, parameter in enumerate(self.parameters):
            if parameter.grad is not None:
                self._update(place, self._change(place, parameter.grad.float()))
        self._publish()

    def _change(self, place: int, grad: Tensor) -> Tensor:
        first, second = self.first[place], self.second[place]
        first.lerp_(grad, 1 - self.betas[0])
        second.lerp_(grad.square(), 1 - self.betas[1])
        if self.moments is not None:
            first.copy_(round_to(first, self.moments))
            second.copy_(round_to(second, self.moments))
        unbiased = (1 - self.betas[0] ** self.steps, 1 - self.betas[1] ** self.steps)
        direction = (first / unbiased[0]) / ((second / unbiased[1]).sqrt() + self.eps)
        return -self.lr * (direction + self.weight_decay * self.held[place] * (grad.ndim > 1))

    def _update(self, place: int, change: Tensor) -> None:
        old, exact = self.held[place], self.storage in ("fp32", "master")
        if self.storage == "kahan":
            change = change + self.dropped[place]
        mode = "stochastic" if self.storage == "stochastic" else "nearest"
        new = old + change if exact else round_to(old + change, self.form, mode, generator=self.coin)
        if self.storage == "kahan":
            self.dropped[place] = round_to(change - (new - old), self.form)
        self.updates += int((change != 0).sum())
        self.lost += int(((new == old) & (change != 0)).sum())
        self.held[place] = new

    @torch.no_grad()
    def _publish(self) -> None:
        """Give the parameters the weights that a forward pass reads."""
        for parameter, held in zip(self.parameters, self.held, strict=True):
            parameter.copy_(held if self.storage == "fp32" else round_to(held, self.form))
