"""The events of a trace that `torch.profiler` wrote: each with its name, its time in seconds, and what launched it.

The format is that of chrome://tracing: a list of events with a name, a start and a length in microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from course_lib.estimate.units import US


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its time in seconds."""

    name: str
    start: float
    end: float
    category: str
    lane: tuple[str, str]  # process and thread
    correlation: int = -1  # what a kernel and its launch have in common; -1 where there is none


def number(value: object) -> float | None:
    """A finite number; None for anything else."""
    try:
        sound = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return None
    return float(value) if sound else None  # type: ignore[arg-type]


def events_of(rows: Iterable[Mapping[str, object]]) -> tuple[list[Event], int]:
    """Complete events ("X"), and pairs of a beginning and an end ("B" and "E"); and how many cannot be used."""
    found: list[Event] = []
    begun: dict[tuple[str, str], list[Mapping[str, object]]] = {}
    bad = 0
    for each in rows:
        kind, lane = each.get("ph"), (str(each.get("pid"))[:40], str(each.get("tid"))[:40])
        start, took, named = number(each.get("ts")), number(each.get("dur")), each
        if kind == "B":
            begun.setdefault(lane, []).append(each)
        elif kind == "X" or (kind == "E" and begun.get(lane)):
            if kind == "E":
                named = begun[lane].pop()
                start, stop = number(named.get("ts")), start
                took = None if start is None or stop is None else stop - start
            if start is None or took is None or took < 0:
                bad += 1
                continue
            name, category = str(named.get("name", ""))[:400], str(named.get("cat", ""))[:40]
            about = named.get("args")
            same = number(about.get("correlation")) if isinstance(about, dict) else None
            pair = -1 if same is None else int(same)
            found.append(Event(name, start * US, (start + took) * US, category, lane, pair))
    return found, bad


def operations(events: Sequence[Event]) -> list[Event]:
    """On a CPU: gloo's calls, and PyTorch's operations with nothing else inside, so that none of them waits."""
    ordered = sorted(events, key=lambda each: (each.lane, each.start, -each.end))
    around: list[int] = []  # places of the events that the next one may be inside of
    others: set[int] = set()  # places of those that have something else inside
    for place, each in enumerate(ordered):
        while around and (ordered[around[-1]].lane != each.lane or ordered[around[-1]].end <= each.start):
            around.pop()
        for outer in reversed(around if not each.name.startswith("aten::") else ()):
            if outer in others:
                break
            others.add(outer)
        around.append(place)
    kept = [each for place, each in enumerate(ordered) if place not in others]
    return [each for each in kept if each.name.startswith(("aten::", "gloo:"))]
