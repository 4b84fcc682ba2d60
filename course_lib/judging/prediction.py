"""The judge of a prediction: an interval that a learner commits to before a number is revealed."""

from collections.abc import Callable
from typing import Any

from course_lib.exercises.values import describe, is_number
from course_lib.judging.contract import Judging, Params
from course_lib.judging.mistakes import Fault, verdict
from course_lib.records import Case

WIDEST = 4  # times the low end: a wider interval commits to nothing


def prediction(
    unit: str, truth: Callable[[Params], float], reveal: Callable[[Params], str], why: str, pytorch: str = ""
) -> Judging:
    """The judging of a prediction in `unit`: a positive interval at most a factor of four wide earns all points, right or not."""
    return Judging(
        shares={"values:interval": 1.0},
        cases=lambda params, rng: [Case(name="your interval", part="interval")],
        verdicts=lambda params, case, outcome: [
            verdict("values", "interval", case, interval_fault(outcome.value, unit))
        ],
        truth=truth,
        reveal=reveal,
        why=why,
        pytorch=pytorch,
    )


def interval_fault(value: Any, unit: str) -> Fault | None:
    """What keeps a value from being an interval in `unit`; a rounding error does not make it too wide."""
    if type(value) not in (tuple, list) or len(value) != 2:
        return "not-a-pair", f"Return two numbers, (low, high), in {unit}; got {describe(value)}."
    low, high = value
    if not (is_number(low) and is_number(high)):
        return "not-numbers", f"Both ends must be finite numbers in {unit}; got {describe(value)}."
    if low <= 0 or high <= 0:
        return "not-positive", "Both ends must be positive."
    if low > high:
        return "reversed", "The low end must come first."
    if high > WIDEST * low * (1 + 1e-9):
        return "too-wide", f"The high end is {high / low:.3g} times the low end; at most {WIDEST} times is allowed."
    return None
