"""What several of chapter 08's judges use."""

import math
from collections.abc import Mapping

PER_PARAM = 16


def hsdp(gathers: int, params: float, ranks: int, group: int) -> tuple[float, float, float]:
    """Bytes of state on a rank, bytes it sends inside its group in a step, and across groups."""
    copies = ranks // group
    inside = (gathers + 1) * (group - 1) / group * 2 * params
    return PER_PARAM * params / group, inside, 2 * (copies - 1) / copies * 2 * params / group


def crossover(flops: float, bandwidth: float, ranks: int, gather: float, reduce: float) -> float:
    """Tokens per GPU at which sending takes as long as computing."""
    return (2 * gather + reduce) * (ranks - 1) / ranks * flops / bandwidth / 6


def least_ranks(shared: float, room: float) -> int | None:
    """The fewest ranks on which a part of `shared` bytes fits into `room`, or None; exactly full fits."""
    if room < 0 or (room == 0 and shared):
        return None
    return max(1, math.ceil(shared / room * (1 - 1e-12))) if shared else 1


Buckets = Mapping[str, float]  # bytes per parameter
SINCE = {"master": 1, "moments": 1, "grads": 2, "weights": 3}  # the first stage that shards a bucket


def split(stage: int, buckets: Buckets) -> tuple[float, float]:
    """Bytes per parameter that every rank holds whole, and those that are sharded."""
    shared = sum(per for name, per in buckets.items() if stage >= SINCE[name])
    return sum(buckets.values()) - shared, shared


def held(params: float, stage: int, ranks: int, buckets: Buckets) -> float:
    """Bytes of state on one rank."""
    whole, shared = split(stage, buckets)
    return params * (whole + shared / ranks)
