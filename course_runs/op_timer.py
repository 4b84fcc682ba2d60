"""Seconds of single calls: on a CPU by its clock, on a GPU by events that it stamps itself, so that no call waits for
the host."""

import time
from collections.abc import Callable

import torch

from course_runs.process_group import Place


def seconds_of(work: Callable[[], object], place: Place, count: int, cold: bool = False) -> list[float]:
    """Seconds of each of `count` calls of `work`.

    `cold`: on a GPU, write over its L2 cache before each call, so that no operand is still there from the call before.
    """
    if place.device.type != "cuda":
        return [_by_the_clock(work) for _ in range(count)]
    waste = torch.empty(cache_bytes(place.device) if cold else 0, dtype=torch.int8, device=place.device)
    pairs = []
    for _ in range(count):
        if cold:
            waste.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        pairs.append((start, end))
    place.wait()
    return [start.elapsed_time(end) * 1e-3 for start, end in pairs]


def cache_bytes(device: torch.device) -> int:
    """Bytes that surely push everything else out of a GPU's L2 cache: twice its size, 256 MB where it is not known."""
    return 2 * int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 256_000_000


def _by_the_clock(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
