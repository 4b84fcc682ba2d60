"""Our step against torch's, in turns on the same processes: what else the machine does meets both."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.rows import Row
from course_lib.cluster import Comm

Step = Callable[[Any, Any], None]  # of inputs and targets


def times_here(
    comm: Comm, ours: Step, theirs: Step, batch_of: Callable[[int], tuple[object, object]], repeats: int
) -> list[list[float]]:
    """Seconds of a step on this rank, a row a repeat: ours, torch's; who begins alternates. Two repeats run first."""
    rows = []
    for repeat in range(repeats + 2):
        inputs, targets = batch_of(repeat)
        row = [0.0, 0.0]
        for place in (0, 1) if repeat % 2 else (1, 0):
            comm.barrier()
            start = time.perf_counter()
            (ours, theirs)[place](inputs, targets)
            row[place] = time.perf_counter() - start
        rows.append(row)
    return rows[2:]


def ratio_rows(name: str, rival: str, by_rank: Sequence[Sequence[Sequence[float]]], slowest: float) -> list[Row]:
    """Medians of both and the quartiles of their ratio, from each rank's times. A repeat's time is that of its slowest
    rank."""
    times = [[max(each) for each in zip(*repeat, strict=True)] for repeat in zip(*by_rank, strict=True)]
    low, middle, high = statistics.quantiles([mine / other for mine, other in times], n=4)
    ours, theirs = (statistics.median(row[at] for row in times) for at in (0, 1))
    return [
        Row(f"{name}: a step of ours", ours * 1e3, "ms"),
        Row(f"{name}: a step of torch's {rival}", theirs * 1e3, "ms"),
        Row(f"{name}: ours / torch's", middle, "times", middle <= slowest, f"quartiles {low:.2f} to {high:.2f}"),
    ]
