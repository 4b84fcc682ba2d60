"""How often to save: Young's interval, the exact optimum, and the goodput that an interval gives.

τ is the useful time between two checkpoints, δ what one costs the training, M the mean time between failures, R the
time of a restart. Failures come at any moment, also during checkpoints and restarts, and throw away all work since the
last durable checkpoint. An asynchronous checkpoint costs only δ (the copy), but counts as durable P seconds later. All
times are in seconds.

Young (1974) found √(2δM); Daly (2006) the exact time of a segment, M e^(R/M) (e^((τ+δ)/M) − 1).
"""

import math

from course_lib.estimate.units import require


def young_interval(cost: float, mtbf: float) -> float:
    """Young's interval √(2δM), the optimum to first order. It needs δ ≪ M: for δ > M/2 it is longer than M."""
    return math.sqrt(2.0 * require("cost", cost, "s", open_below=False) * require("mtbf", mtbf, "s"))


def best_interval(cost: float, mtbf: float) -> float:
    """The interval of highest goodput, exact: the τ with e^((τ+δ)/M) (1 − τ/M) = 1.

    It depends neither on the restart time nor on how long an asynchronous checkpoint takes to become durable: both
    scale the goodput of every interval alike.
    """
    cost, mtbf = require("cost", cost, "s", open_below=False), require("mtbf", mtbf, "s")
    ratio = cost / mtbf
    low, high = 0.0, 1.0  # in units of M: the left side falls from e^(δ/M) at 0 to 0 at 1
    for _ in range(200):
        middle = (low + high) / 2.0
        # logarithms, so that large δ/M does not overflow
        below = middle + ratio + math.log1p(-middle) > 0 if middle < 1.0 else False
        low, high = (middle, high) if below else (low, middle)
    return mtbf * (low + high) / 2.0


def expected_goodput(interval: float, cost: float, mtbf: float, restart: float = 0.0, persist: float = 0.0) -> float:
    """The fraction of a long run that is useful, exact: τ e^(−(R+P)/M) / (M (e^((τ+δ)/M) − 1)).

    Between two failures the run completes each further checkpoint with probability e^(−(τ+δ)/M), and the first only
    after a restart and P more seconds. Without failures it would be τ / (τ+δ).
    """
    interval, mtbf = require("interval", interval, "s"), require("mtbf", mtbf, "s")
    cost = require("cost", cost, "s", open_below=False)
    later = require("restart", restart, "s", open_below=False) + require("persist", persist, "s", open_below=False)
    if mtbf == math.inf:
        return interval / (interval + cost)
    exponent = (interval + cost) / mtbf
    if exponent > 700:
        return 0.0
    return interval * math.exp(-later / mtbf) / (mtbf * math.expm1(exponent))


def first_order_goodput(interval: float, cost: float, mtbf: float, restart: float = 0.0) -> float:
    """What most reports use: (1 − (R + τ/2)/M) / (1 + δ/τ). Good while all times are much shorter than M; never below
    0."""
    interval, mtbf = require("interval", interval, "s"), require("mtbf", mtbf, "s")
    cost = require("cost", cost, "s", open_below=False)
    restart = require("restart", restart, "s", open_below=False)
    return max(0.0, 1.0 - (restart + interval / 2.0) / mtbf) / (1.0 + cost / interval)


def run_seconds(
    work: float, interval: float, cost: float, mtbf: float, restart: float = 0.0, persist: float = 0.0
) -> float:
    """Expected elapsed time of so much useful work; infinite where no interval is ever completed."""
    require("work", work, "s")
    goodput = expected_goodput(interval, cost, mtbf, restart, persist)
    return work / goodput if goodput else math.inf


def checkpoint_seconds(nbytes: float, bandwidth: float) -> float:
    """Seconds to write so many bytes (of all ranks together) to storage of so many B/s."""
    return require("nbytes", nbytes, "B", open_below=False) / require("bandwidth", bandwidth, "B/s")
