"""What this rank can do, measured in a second before a run, on all ranks at once: they share a machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

from course_lib.runs.place import Place
from course_lib.runs.predict import Job, Rates

_BUDGET = 0.3  # s of each measurement
_SMALL, _LARGE = 4, 4_000_000  # bytes of the two all-reduces


def measure(job: Job, place: Place, dtype: torch.dtype) -> Rates:
    """Rates of the model's own matmul, of a copy, and of all-reduces over all ranks. All ranks call it."""
    config, tokens = job.config, min(job.micro_tokens, 8192)
    x = torch.randn(tokens, config.hidden, device=place.device, dtype=dtype)
    w = torch.randn(config.hidden, config.ffn // job.layout.tp, device=place.device, dtype=dtype)
    matmul = timed(lambda: x @ w, place)
    block = torch.empty(16_000_000 if place.device.type == "cuda" else 4_000_000, device=place.device)
    other = torch.empty_like(block)
    copy = timed(lambda: other.copy_(block), place)
    alpha, wire = 0.0, float("inf")
    if place.ranks > 1:
        small, large = (timed(_all_reduce(nbytes, place), place) for nbytes in (_SMALL, _LARGE))
        alpha = small
        sent = 2 * (place.ranks - 1) / place.ranks * _LARGE
        wire = sent / max(large - small, large / 10)
    flops = 2 * tokens * config.hidden * (config.ffn // job.layout.tp) / matmul
    return Rates(flops=flops, memory=2 * block.nbytes / copy, alpha=alpha, wire=wire)


def _all_reduce(nbytes: int, place: Place) -> Callable[[], None]:
    x = torch.zeros(nbytes // 4, device=place.device)
    return lambda: dist.all_reduce(x)


def timed(work: Callable[[], object], place: Place, budget: float = _BUDGET) -> float:
    """Median seconds of `work`, the first runs left out; as often as rank 0 finds time for, the same on every rank."""
    work(), work()
    place.wait()
    start = time.perf_counter()
    work()
    place.wait()
    once = max(time.perf_counter() - start, 1e-7)
    count = torch.tensor([min(max(int(budget / once), 5), 200)], device=place.device)
    if place.ranks > 1:
        dist.broadcast(count, 0)
    times = []
    for _ in range(int(count)):
        start = time.perf_counter()
        work()
        place.wait()
        times.append(time.perf_counter() - start)
    return median(times)
