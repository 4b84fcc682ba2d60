"""The idle time of a pipeline by its schedule, as a number of forward, backward and weight-gradient times."""

import numpy as np

from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.units import Numeric


def idle(stages: int, microbatches: int) -> float:
    """The share of all time that equal stages idle in GPipe and 1F1B."""
    return (stages - 1) / (microbatches + stages - 1)


def idle_over_work(stages: int, microbatches: int) -> float:
    """The same idle time over working time, the other convention."""
    return (stages - 1) / microbatches


def idle_seconds(layout: Layout, forward: Numeric, backward: Numeric, weights: Numeric, whole: Numeric) -> Numeric:
    """Seconds in which a stage waits for others. All times are of a stage's layers for one micro-batch.

    `backward` contains `weights`; `whole` is the time of all other stages together. Closed forms: GPipe and 1F1B (p -
    1)(F + B); interleaved that over v (Narayanan et al. 2021); zero-bubble (p - 1)(F + B - 2W) and (F + B - 3W) with B
    the whole backward pass (Qi et al. 2023); DualPipe (p/2 - 1)(F + B + B - 3W) (DeepSeek-AI 2024).
    """
    others, schedule = layout.pp - 1, layout.schedule
    if schedule == "naive":
        return layout.microbatches * whole
    if schedule in ("1f1b", "gpipe"):
        return whole
    if schedule in ("interleaved", "breadth_first"):
        return whole / layout.virtual
    if schedule == "zb_h1":
        return np.maximum(whole - others * 2 * weights, 0.0)
    if schedule in ("zb_h2", "zb_v"):
        return np.maximum(whole - others * 3 * weights, 0.0)
    return np.maximum((layout.pp / 2 - 1) * (forward + 2 * backward - 3 * weights), 0.0)
