"""How often to validate, and how late a validation reports a fault such as bad data or a wrong learning rate.

Every `every` steps of `step` s, training stops for a validation of `check` s. A fault begins at a random moment of
training and spoils every later step. It is reported when `needed` validations in a row have seen it, and the run then
goes back to before the fault. So time is lost in two ways: in validations, and from each fault to its report.
"""

import math
import random

from course_lib.estimate.units import require, require_whole


def time_share(every: int, step: float, check: float) -> float:
    """The share of all time that validations take."""
    _checked(every, step, check, 1)
    return check / (every * step + check)


def mean_delay(every: int, step: float, check: float, needed: int = 1) -> float:
    """Mean seconds from a fault to its report: half an interval to the first validation, whole ones to the others."""
    _checked(every, step, check, needed)
    return (needed - 0.5) * every * step + needed * check


def lost_share(every: int, step: float, check: float, between: float, needed: int = 1) -> float:
    """The share of time that validations and late reports cost, with a fault every `between` s on average.

    To first order: `between` must be much longer than the delay.
    """
    return time_share(every, step, check) + mean_delay(every, step, check, needed) / require("between", between, "s")


def best_every(step: float, check: float, between: float, needed: int = 1) -> int:
    """The steps between validations that lose least; the smaller number where two lose the same.

    The derivative vanishes at every · step = √(check · between / (needed - ½)) - check.
    """
    _checked(1, step, check, needed)
    ideal = (math.sqrt(check * require("between", between, "s") / (needed - 0.5)) - check) / step
    below = max(1, math.floor(ideal))
    return min((below, below + 1), key=lambda every: lost_share(every, step, check, between, needed))


def drawn_delays(every: int, step: float, check: float, needed: int, draws: int, seed: int = 0) -> list[float]:
    """Delays of faults at random moments of training, played validation by validation."""
    coin, found = random.Random(seed), []
    for _ in range(draws):
        fault = coin.random() * every * step  # since the validation before
        clock, seen = every * step - fault + check, 1
        while seen < needed:
            clock, seen = clock + every * step + check, seen + 1
        found.append(clock)
    return found


def backlog(every: int, step: float, seconds: float, checkpoints: int) -> float:
    """Seconds from a checkpoint to its result where one evaluator beside the run takes `seconds` for each in turn.

    Within the interval it is always `seconds`; where the evaluator is slower, each checkpoint waits longer.
    """
    _checked(every, step, seconds, 1)
    return seconds + max(0.0, seconds - every * step) * (checkpoints - 1)


def _checked(every: int, step: float, check: float, needed: int) -> None:
    require_whole("every", every, "steps")
    require_whole("needed", needed, "validations")
    require("step", step, "s")
    require("check", check, "s")
