"""What several of chapter 14's judges use."""

import math
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch14.probes import order_of
from course_lib.units import DAY, HOUR

HOURS_A_DAY = DAY / HOUR


def hours_between(failures: float, days: float, gpus: float, size: float) -> float:
    """Mean hours between failures of a job on `size` GPUs, from the log of one on `gpus`."""
    return days * HOURS_A_DAY * gpus / failures / size


def chance(hours: float, between: float) -> float:
    """The probability of at least one failure in a run of so many hours."""
    return -math.expm1(-hours / between)


def best_interval(save: float, mtbf: float) -> float:
    """The interval with the highest goodput, by bisection of (1 − x)·eˣ = e^(−save/mtbf) with x = interval / mtbf."""
    low, high, want = 0.0, 1.0, math.exp(-save / mtbf)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) * math.exp(middle) > want else (low, middle)
    return low * mtbf


def goodput(restarts: str, interval: float, save: float, restart: float, mtbf: float) -> float:
    """Work over expected time of a segment, with restarts that are "safe" from failures or "exposed" to them."""
    failures = math.expm1((interval + save) / mtbf)
    again = restart if restarts == "safe" else mtbf * math.expm1(restart / mtbf)
    return interval / (failures * (mtbf + again))


def batches(seed: int, samples: int, batch: int, consumed: int, *, short: bool, first: bool = False) -> list[int]:
    """The ids of the next batch; `first` takes every epoch in the order of the first one."""
    order, ids = order_of(seed, samples), []
    while len(ids) < batch:
        epoch, place = divmod(consumed + len(ids), samples)
        ids += order(0 if first else epoch)[place : place + batch - len(ids)]
        if short:
            break
    return ids


def shared(ids: Sequence[int], ranks: int) -> list[list[int]]:
    """Contiguous parts whose sizes differ by at most one, the larger ones first."""
    small, extra = divmod(len(ids), ranks)
    starts = [rank * small + min(rank, extra) for rank in range(ranks + 1)]
    return [list(ids[a:b]) for a, b in zip(starts, starts[1:], strict=False)]


def told(args: tuple[Any, ...], short: bool, share: Any = shared, first: bool = False) -> list[dict[str, Any]]:
    """What the probe tells of a run, for the right answer and for known mistakes."""
    seed, samples, batch, phases, consumed = args
    steps = []
    for count, ranks in phases:
        for _ in range(count):
            ids = batches(seed, samples, batch, consumed, short=short, first=first)
            consumed += len(ids)
            steps.append({"ids": share(ids, ranks), "consumed": [consumed]})
    return steps
