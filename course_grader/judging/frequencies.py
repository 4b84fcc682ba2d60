"""Outcomes that an answer draws at random, against the probabilities that they must have."""

import math
from collections.abc import Mapping
from typing import TypeVar

Value = TypeVar("Value")


def surprise(counts: Mapping[Value, int], want: Mapping[Value, float]) -> float:
    """Chi-square as a normal number, by Wilson and Hilferty; infinite for an output that cannot come."""
    if any(output not in want for output in counts):
        return math.inf
    times = sum(counts.values())
    cells, rare, seen = list[tuple[float, int]](), 0.0, 0
    for output, p in want.items():
        if times * p >= 10:
            cells.append((times * p, counts.get(output, 0)))
        else:
            rare, seen = rare + times * p, seen + counts.get(output, 0)
    if rare:
        cells.append((max(rare, 1.0), seen))
    chi, free = sum((count - mean) ** 2 / mean for mean, count in cells), max(1, len(cells) - 1)
    return ((chi / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))
