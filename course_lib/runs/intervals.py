"""Intervals of time: each moment counted once. No torch: evidence is checked and drawn without it."""

from __future__ import annotations

from collections.abc import Iterable

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


def length(parts: Iterable[Interval]) -> float:
    """Seconds of a union."""
    return sum(end - start for start, end in parts)


def exposed(found: dict[str, list[Interval]]) -> float:
    """Seconds in which a rank communicated and did not compute."""
    both = length(union([*found["compute"], *found["communication"]]))
    return both - length(union(found["compute"]))
