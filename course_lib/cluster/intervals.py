"""Time intervals as (start, end) in seconds: the total length of a set, and the overlap of two sets."""

from __future__ import annotations

from collections.abc import Iterable

Stretch = tuple[float, float]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same times as disjoint intervals, in order."""
    out: list[Stretch] = []
    for start, end in sorted(stretches):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        elif end > start:
            out.append((start, end))
    return out


def total(stretches: Iterable[Stretch]) -> float:
    """Seconds that the intervals cover, counted once."""
    return sum(end - start for start, end in merged(stretches))


def overlap(one: Iterable[Stretch], two: Iterable[Stretch]) -> float:
    """Seconds that both sets cover."""
    one, two = merged(one), merged(two)
    return total(one) + total(two) - total([*one, *two])
