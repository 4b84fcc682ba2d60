"""Learning rates over a run: warm-up, cosine, and warm-up–stable–decay (WSD). Plain functions of the step.

`step` is the number of the update, counted from 1 as Adam counts; the formulas hold at 0 too, where a warm-up gives a
rate of 0, so a run that counts from 0 wastes its first update. Past the end the rate stays at the floor. Steps may be
tokens just as well.
"""

import math

from course_lib.estimate.units import require


def linear_warmup(step: float, warmup: float) -> float:
    """The fraction of the peak rate: step / warmup, 1 from `warmup` on, and 1 everywhere without a warm-up."""
    require("step", step, "steps", open_below=False)
    require("warmup", warmup, "steps", open_below=False)
    return min(1.0, step / warmup) if warmup else 1.0


def constant(step: float, steps: float, warmup: float = 0, peak: float = 1.0, floor: float = 0.0) -> float:
    """Warm-up, then the peak to the last step; the floor past the end."""
    _require_run(steps, warmup, peak, floor)
    return floor if step > steps else peak * linear_warmup(step, warmup)


def cosine(step: float, steps: float, warmup: float = 0, peak: float = 1.0, floor: float = 0.0) -> float:
    """Warm-up to the peak, then half a cosine down to the floor at `steps`. Loshchilov & Hutter (2017)."""
    _require_run(steps, warmup, peak, floor)
    if step <= warmup and warmup:
        return peak * linear_warmup(step, warmup)
    require("step", step, "steps", open_below=False)
    if step >= steps:
        return floor
    done = (step - warmup) / (steps - warmup)
    return floor + (peak - floor) * (1 + math.cos(math.pi * done)) / 2


def wsd(step: float, steps: float, warmup: float = 0, decay: float = 0, peak: float = 1.0, floor: float = 0.0) -> float:
    """Warm-up, the peak, then in the last `decay` steps a straight line to the floor. Hu et al. (2024), with a linear
    decay.

    Until the decay begins the rate does not depend on `steps`: a run may be made longer, or branch into several ends.
    """
    _require_run(steps, warmup, peak, floor)
    require("decay", decay, "steps", open_below=False)
    if warmup + decay > steps:
        raise ValueError(f"warmup={warmup:g} and decay={decay:g} do not fit into steps={steps:g}; shorten one of them.")
    if step > steps:
        return floor
    if step > steps - decay:
        return floor + (peak - floor) * (steps - step) / decay
    return peak * linear_warmup(step, warmup)


def _require_run(steps: float, warmup: float, peak: float, floor: float) -> None:
    require("steps", steps, "steps")
    require("warmup", warmup, "steps", open_below=False)
    require("peak", peak, open_below=False)
    require("floor", floor, open_below=False)
    if warmup > steps:
        raise ValueError(f"warmup={warmup:g} is longer than the run, steps={steps:g}; it would never reach the peak.")
    if floor > peak:
        raise ValueError(f"floor={floor:g} is above peak={peak:g}; a schedule decays to its floor.")
