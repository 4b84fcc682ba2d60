"""Stretches of time as (start, end) in seconds: how long a set of them is, and how long two sets overlap."""

from __future__ import annotations

from collections.abc import Iterable

Stretch = tuple[float, float]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same times as stretches that do not touch, in order."""
    out: list[Stretch] = []
    for start, end in sorted(stretches):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif end > start:
            out.append((start, end))
    return out


def total(stretches: Iterable[Stretch]) -> float:
    """Seconds that the stretches cover, counted once."""
    return sum(end - start for start, end in merged(stretches))


def overlap(one: Iterable[Stretch], two: Iterable[Stretch]) -> float:
    """Seconds that both sets cover."""
    one, two = merged(one), merged(two)
    return total(one) + total(two) - total([*one, *two])
