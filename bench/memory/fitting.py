"""The two constants of a framework, chosen on half of its rows: the slack that multiplies and the buffers that are
added."""

from collections.abc import Sequence

import numpy as np

from bench.memory.rows import Row
from course_lib.estimate.units import GiB

SLACKS = np.round(np.arange(0.90, 1.501, 0.01), 2)
BUFFERS = np.round(np.arange(0.0, 6.01, 0.1), 1)  # GiB
KEPT = 0.8  # of the rows count, those predicted best: some tables mix in runs of other settings


def fitted(rows: Sequence[Row]) -> tuple[float, float]:
    """Slack and buffers in GiB with the least mean error over the best-predicted 80 % of these rows.

    Every pair of a grid is tried, so that the same rows give the same constants; the first of equals wins.
    """
    if not rows:
        raise ValueError("There is no row to choose constants on; give a folder that has the framework's table.")
    terms = np.array([row.terms for row in rows])
    measured = np.array([row.measured * row.unit for row in rows])
    best, choice = np.inf, (1.0, 0.0)
    for slack in SLACKS:
        errors = np.abs((slack * terms[:, None] + BUFFERS * GiB) / measured[:, None] - 1)
        means = np.sort(errors, axis=0)[: max(1, int(KEPT * len(rows)))].mean(axis=0)
        at = int(np.argmin(means))
        if means[at] < best - 1e-12:
            best, choice = float(means[at]), (float(slack), float(BUFFERS[at]))
    return choice
