"""How long the operations of a schedule take."""

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.estimate.units import require
from course_lib.parallel.schedules import Schedule

PerStage = float | Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Durations:
    """How long one micro-batch takes, in seconds or any unit. A number is for 1/ranks of the model, so that a chunk
    takes its part of it; a sequence is per stage and taken as given.
    """

    forward: PerStage = 1.0
    backward: PerStage = 2.0  # whole: both gradients
    input_gradient: PerStage | None = None  # half of the backward, or what the weight gradient leaves
    weight_gradient: PerStage | None = None  # what the input gradient leaves of the backward
    communication: float = 0.0  # from the end of an operation until its result is on another rank
    overlapped: float | None = None  # a forward and a backward together (DualPipe's F&B), of 1/ranks; None: their sum

    def __post_init__(self) -> None:
        for name in ("forward", "backward", "input_gradient", "weight_gradient"):
            value = getattr(self, name)
            if hasattr(value, "__iter__"):
                object.__setattr__(self, name, tuple(value))

    def of(self, schedule: Schedule) -> dict[str, list[float]]:
        """Duration by kind and stage of this schedule."""
        stages = schedule.stages
        forward, backward = (_per_stage(name, getattr(self, name), schedule) for name in ("forward", "backward"))
        inner, outer = (
            None if value is None else _per_stage(name, value, schedule)
            for name, value in (("input_gradient", self.input_gradient), ("weight_gradient", self.weight_gradient))
        )
        if inner is None:
            inner = [b - w for b, w in zip(backward, outer, strict=True)] if outer else [b / 2 for b in backward]
        if outer is None:
            outer = [b - i for b, i in zip(backward, inner, strict=True)]
        for stage in range(stages):
            if min(inner[stage], outer[stage]) < 0:
                raise ValueError(
                    f"backward is {backward[stage]:g} on stage {stage}, less than one of its halves "
                    f"({max(inner[stage], outer[stage]):g}); it is the sum of input and weight gradient."
                )
        require("communication", self.communication, open_below=False)
        return {"F": forward, "B": backward, "I": inner, "W": outer}


def _per_stage(name: str, value: PerStage, schedule: Schedule) -> list[float]:
    if isinstance(value, Sequence):
        if len(value) != schedule.stages:
            raise ValueError(
                f"{name} has {len(value)} durations; {schedule.name} has {schedule.stages} stages here and needs "
                f"one for each."
            )
        return [require(f"{name}[{at}]", each, open_below=False) for at, each in enumerate(value)]
    return [require(name, value, open_below=False) * schedule.share] * schedule.stages
