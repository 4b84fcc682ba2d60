"""All layouts of a model on some GPUs, and those of them that nothing beats: less time, less memory or fewer bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from course_lib import compute
from course_lib.mesh.plans import Plan, plan
from course_lib.mesh.wires import Network, network

SIZES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan with the settings that made it."""

    settings: dict[str, Any]
    plan: Plan

    @property
    def name(self) -> str:
        """Its axes, sharding and recomputation."""
        axes = " ".join(f"{axis}{size}" for axis, size in reversed(self.plan.mesh.sizes.items()) if size > 1)
        again = {"none": "", "selective": ", selective recomputation", "full": ", full recomputation"}
        return f"{axes or 'one GPU'}, ZeRO-{self.settings['zero']}{again[self.settings['recompute']]}"

    def run_seconds(self, tokens: float) -> float:
        """Seconds of the whole run of this many tokens."""
        return tokens / self.plan.tokens * self.plan.seconds

    def gpu_seconds(self, tokens: float) -> float:
        """GPU-seconds of the run, which its price is proportional to."""
        return self.run_seconds(tokens) * self.plan.gpus


def every_choice(
    model: Any,
    gpus: int,
    *,
    sizes: Sequence[int] = SIZES,
    most_tp: int = 8,
    zero: Sequence[int] = (0, 1, 3),
    recompute: Sequence[str] = ("none", "full"),
    device: str = "H100 SXM",
    **settings: Any,
) -> Iterator[Choice]:
    """Every layout that can be: axes that divide the GPUs and what they cut. Layouts that do not fit are among them."""
    wires: Network = settings.pop("wires", None) or network(device)
    for tp, pp, cp in product([size for size in sizes if size <= most_tp], sizes, sizes):
        if gpus % (tp * pp * cp):
            continue
        for stage, again in product(zero, recompute):
            made = {"tp": tp, "pp": pp, "cp": cp, "zero": stage, "recompute": again}
            try:
                yield Choice(made, plan(model, gpus, device=device, wires=wires, **made, **settings))
            except ValueError:
                continue  # it cannot be: heads, layers or sequences do not divide


def cheapest(choices: Sequence[Choice], tokens: float, deadline_s: float, reserve: float = 0.1) -> Choice | None:
    """The choice with the fewest GPU-seconds of those that fit, with a share of memory in reserve, and meet the deadline."""
    allowed = [
        each
        for each in choices
        if each.plan.memory <= (1 - reserve) * each.plan.capacity and each.run_seconds(tokens) <= deadline_s
    ]
    return min(allowed, key=lambda each: (each.gpu_seconds(tokens), each.plan.memory), default=None)


def unbeaten(choices: Sequence[Choice], *measures: Callable[[Choice], float]) -> list[Choice]:
    """The Pareto front: choices that no other beats in one measure without losing in another. Smaller is better."""
    values = [tuple(measure(each) for measure in measures) for each in choices]
    kept: list[Choice] = []
    for each, mine in zip(choices, values, strict=True):
        beaten = any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in values)
        if not beaten:
            kept.append(each)
    return kept


def usd(choice: Choice, tokens: float, usd_per_hour: float) -> float:
    """Dollars of the run at a price per GPU-hour."""
    seconds = choice.run_seconds(tokens)
    return float(compute.cost_usd(compute.device_hours(seconds, choice.plan.gpus), usd_per_hour))
