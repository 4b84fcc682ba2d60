"""Loss scaling: multiply the loss so that small gradients survive fp16, divide before the step, and skip steps that
overflow."""

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from course_lib.estimate.units import require, require_whole


@dataclass(slots=True, kw_only=True)
class LossScaler:
    """A dynamic loss scale. After an overflow it shrinks and the step is skipped; after `interval` clean steps in a row
    it grows.

    With the same arguments it gives the same scales as `torch.amp.GradScaler`, within `least` and `most`.
    """

    scale: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000  # clean steps before the scale grows
    least: float = 2.0**-14
    most: float = 2.0**40
    clean_steps: int = 0  # in a row, since the scale last changed
    skipped: int = 0  # steps in all

    def __post_init__(self) -> None:
        require_whole("interval", self.interval, "steps")
        require("growth", self.growth, "times", least=1.0)
        require("backoff", self.backoff, "times", most=1.0)
        if not 0 < self.least <= self.scale <= self.most:
            raise ValueError(
                f"The scale {self.scale} must lie between least={self.least} and most={self.most}, above 0."
            )

    def update(self, overflow: bool) -> None:
        """Take note of one step: whether any gradient on any rank was infinite or NaN."""
        if overflow:
            self.scale = max(self.least, self.scale * self.backoff)
            self.clean_steps = 0
            self.skipped += 1
            return
        self.clean_steps += 1
        if self.clean_steps == self.interval:
            self.scale = min(self.most, self.scale * self.growth)
            self.clean_steps = 0


def has_overflow(tensors: Iterable[Tensor]) -> bool:
    """Whether any element of any tensor is infinite or NaN; False for no tensors and for empty ones."""
    return any(not bool(tensor.isfinite().all()) for tensor in tensors)
