"""Chapter 06's measurement on real processes: the best of several repeats, and a prediction beside it."""

import time
from collections.abc import Callable, Sequence

import torch

from course_lib.cluster import Comm
from course_lib.estimate.units import bytes_text, duration_text


def best_times(comm: Comm, work: Callable[..., object], sizes: Sequence[int], repeats: int = 12) -> list[float]:
    """Shortest wall time in seconds of `work(comm, tensor)` on this rank, for each tensor size in bytes."""
    shortest = []
    for nbytes in sizes:
        x, times = torch.zeros(nbytes // 4), []
        for _ in range(repeats):
            comm.barrier()
            start = time.perf_counter()
            work(comm, x)
            times.append(time.perf_counter() - start)
        shortest.append(min(times))
    return shortest


def ratio_text(nbytes: int, predicted: float, measured: float) -> str:
    """One line: the size, both times in seconds, and measured over predicted."""
    both = f"predicted {duration_text(predicted)}, measured {duration_text(measured)}"
    return f"{bytes_text(nbytes):>8}: {both}, ratio {measured / predicted:.2f}"
