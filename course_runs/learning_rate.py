"""The learning rate of a step: a line up, then half a cosine down. A function of the step alone, so that a resumed run
goes on with it."""

import math

FLOOR = 0.1  # of the peak, where the cosine ends


def rate_at(step: int, peak: float, warmup: int = 0, total: int = 0) -> float:
    """The rate of step `step` (from 0) of `total`: up over `warmup` steps, then down to a tenth. Without warm-up:
    `peak` throughout."""
    if not warmup:
        return peak
    if step < warmup:
        return peak * (step + 1) / warmup
    done = min((step - warmup) / max(total - warmup, 1), 1.0)
    return peak * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)
