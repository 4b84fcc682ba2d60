"""Whose mean a gradient is: effective batches, accumulation steps, and means of parts of unequal size."""

import math
from collections.abc import Sequence

from course_lib.estimate.units import require, require_whole


def effective_batch(per_device: int, accumulation: int, ranks: int) -> int:
    """Samples (or tokens, the unit of `per_device`) behind one update: per device × accumulation × data-parallel
    ranks."""
    sizes = {"per_device": per_device, "accumulation": accumulation, "ranks": ranks}
    return math.prod(require_whole(name, value) for name, value in sizes.items())


def accumulation_steps(batch: int, per_device: int, ranks: int) -> int:
    """Micro-batches that each rank adds up for one update; ValueError if the batch is not a multiple of per device ×
    ranks."""
    at_once = effective_batch(per_device, 1, ranks)
    if require_whole("batch", batch) % at_once:
        below, above = batch // at_once * at_once, -(-batch // at_once) * at_once
        near = f"{below:,} or {above:,}" if below else f"{above:,}"
        raise ValueError(
            f"A batch of {batch:,} is not a multiple of {at_once:,} ({per_device:,} per device × {ranks:,} ranks); "
            f"choose {near}, or another micro-batch."
        )
    return batch // at_once


def weighted_mean(means: Sequence[float], counts: Sequence[float]) -> float:
    """The mean over all items of all parts, from each part's mean and item count. A part without items adds nothing."""
    if len(means) != len(counts):
        raise ValueError(f"{len(means)} means and {len(counts)} counts; each part needs one of both.")
    counts = [require("count", count, "items", open_below=False) for count in counts]
    if not (total := math.fsum(counts)):
        raise ValueError("The counts add up to 0: a mean over no items is not defined.")
    return math.fsum(mean * count for mean, count in zip(means, counts, strict=True) if count) / total
