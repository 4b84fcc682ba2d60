"""When a GPU computed and when it communicated, from a profile of one step, and how much of the second was not hidden by the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from course_lib.runs.place import Place

Interval = tuple[float, float]  # start and end, seconds


def intervals(step: Callable[[], object], place: Place) -> dict[str, list[Interval]]:
    """The intervals of "compute" and "communication" kernels of one call of `step`, from its first kernel on. On a GPU."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        step()
        place.wait()
    kernels = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sorted_out([(event.name, event.time_range.start * 1e-6, event.time_range.end * 1e-6) for event in kernels])


def sorted_out(kernels: Iterable[tuple[str, float, float]]) -> dict[str, list[Interval]]:
    """Kernels (name, start, end) by what they do; NCCL's communicate. Times count from the first."""
    known = sorted(kernels, key=lambda kernel: kernel[1])
    begin = known[0][1] if known else 0.0
    found: dict[str, list[Interval]] = {"compute": [], "communication": []}
    for name, start, end in known:
        found["communication" if "nccl" in name.lower() else "compute"].append((start - begin, end - begin))
    return {kind: union(each) for kind, each in found.items()}


def union(parts: Iterable[Interval]) -> list[Interval]:
    """The same time, each moment once: overlapping kernels must not be added up."""
    merged: list[Interval] = []
    for start, end in sorted(parts):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def length(parts: Iterable[Interval]) -> float:
    """Seconds of a union."""
    return sum(end - start for start, end in parts)


def exposed(found: dict[str, list[Interval]]) -> float:
    """Seconds in which a GPU communicated and did not compute."""
    both = length(union([*found["compute"], *found["communication"]]))
    return both - length(union(found["compute"]))
