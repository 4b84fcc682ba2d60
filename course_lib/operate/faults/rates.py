"""How often something fails: rates from logs, mean time between failures against size, and how well a count determines
a rate.

The model is a Poisson process: every device fails at the same constant rate, independently of the others. A synchronous
job stops when any of its devices fails, so the rates add up. Rates are failures per device-second; all times are in
seconds.
"""

import math

from course_lib.estimate.units import require, require_whole


def failure_rate(failures: float, devices: float, seconds: float) -> float:
    """Failures per device and second of `devices` that were watched for `seconds`."""
    require("failures", failures, "failures", open_below=False)
    return failures / (require("devices", devices, "devices") * require("seconds", seconds, "s"))


def mtbf(devices: float, rate: float) -> float:
    """Mean time between failures of a job on so many devices, in seconds: 1 / (devices × rate). `rate` is per
    device-second."""
    return 1.0 / (require("devices", devices, "devices") * require("rate", rate, "failures per device-second"))


def survival(seconds: float, devices: float, rate: float) -> float:
    """Probability that a job runs so long without any failure: e^(−time / MTBF)."""
    return math.exp(-require("seconds", seconds, "s", open_below=False) / mtbf(devices, rate))


def poisson_at_most(count: int, mean: float) -> float:
    """Probability of at most `count` events where `mean` are expected. 0 for a negative count."""
    if count < 0:
        return 0.0
    if mean == 0:
        return 1.0
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(count + 1)]
    top = max(logs)
    return min(1.0, math.exp(top) * math.fsum(math.exp(each - top) for each in logs))


def rate_interval(failures: int, devices: float, seconds: float, confidence: float = 0.95) -> tuple[float, float]:
    """The lowest and highest rate per device-second that agree with a count: the exact interval of Garwood (1936).

    A count of 0 has a lowest rate of 0. The relative width is about 4 / √failures at 95 %.
    """
    failures = require_whole("failures", failures, "failures", least=0)
    require("confidence", confidence, "", most=1.0)
    exposure = require("devices", devices, "devices") * require("seconds", seconds, "s")
    tail = (1.0 - confidence) / 2.0
    low = _mean_where(failures - 1, 1.0 - tail) if failures else 0.0
    return low / exposure, _mean_where(failures, tail) / exposure


def _mean_where(count: int, probability: float) -> float:
    """The mean at which at most `count` events have this probability."""
    low, high = 0.0, count + 10.0 * math.sqrt(count + 1.0) + 40.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if poisson_at_most(count, middle) > probability else (low, middle)
    return (low + high) / 2.0
