"""Intervals of time: each moment counted once. No torch: evidence is checked and drawn without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]  # start and end, seconds


def union(parts: Iterable[Interval], join: float = 0.0) -> list[Interval]:
    """The same time, each moment once: overlapping kernels must not be added up. Gaps of up to `join` seconds are closed."""
    merged: list[Interval] = []
    for start, end in sorted(parts):
        if merged and start <= merged[-1][1] + join:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def outside(parts: Iterable[Interval], busy: Sequence[Interval]) -> list[Interval]:
    """What of sorted, disjoint `parts` lies outside of sorted, disjoint `busy`."""
    found, place = list[Interval](), 0
    for start, stop in parts:
        while place < len(busy) and busy[place][1] <= start:
            place += 1
        at, here = start, place
        while here < len(busy) and busy[here][0] < stop:
            if busy[here][0] > at:
                found.append((at, busy[here][0]))
            at, here = max(at, busy[here][1]), here + 1
        if at < stop:
            found.append((at, stop))
    return found


def length(parts: Iterable[Interval]) -> float:
    """Seconds of a union."""
    return sum(end - start for start, end in parts)


def exposed(found: dict[str, list[Interval]]) -> float:
    """Seconds in which a rank communicated and did not compute."""
    both = length(union([*found["compute"], *found["communication"]]))
    return both - length(union(found["compute"]))


def overlap(one: Iterable[Interval], two: Iterable[Interval]) -> float:
    """Seconds that two sets of intervals share."""
    one, two = union(one), union(two)
    return length(one) + length(two) - length(union([*one, *two]))
