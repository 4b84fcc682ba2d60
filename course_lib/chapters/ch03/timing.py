"""Wall times on the learner's own machine."""

import statistics
import time
from collections.abc import Callable


def median_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """The median wall time of `work()` after a warm-up call, in seconds."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
