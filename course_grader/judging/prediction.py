"""The judge of a prediction: an interval that a learner commits to before a number is revealed."""

from collections.abc import Callable
from dataclasses import replace

from course_grader.exercises.values import describe, is_number, is_row
from course_grader.judging.contract import Judging, Params
from course_grader.judging.mistakes import Fault, verdict
from course_grader.records import Case, Verdict
from course_lib.estimate.units import number_text

HELD, MISSED = "interval-holds", "interval-misses"  # of verdicts that pass
WIDEST = 4  # times the low end: a wider interval commits to nothing


def prediction(
    unit: str, truth: Callable[[Params], float], reveal: Callable[[Params], str], why: str, pytorch: str = ""
) -> Judging:
    """The judging of a prediction in `unit`: a positive interval at most a factor of four wide earns all points, right
    or not."""

    def true(params: Params) -> float:
        return float(truth(params))  # many models compute in numpy, whose numbers and booleans JSON refuses

    return Judging(
        shares={"values:interval": 1.0},
        cases=lambda params, rng: [Case(name="your interval", part="interval")],
        verdicts=lambda params, case, outcome: [_judged(outcome.value, unit, case, true(params))],
        truth=true,
        reveal=reveal,
        why=why,
        pytorch=pytorch,
    )


def _judged(value: object, unit: str, case: Case, true: float) -> Verdict:
    """The verdict on an interval; one that is a commitment passes, and says whether it holds the value."""
    if fault := interval_fault(value, unit):
        return verdict("values", "interval", case, fault)
    assert is_row(value)
    low, high = value
    assert is_number(low) and is_number(high)
    held = low <= true <= high
    message = f"You committed to {low:,g} to {high:,g} {unit}. The points are for committing."
    return replace(verdict("values", "interval", case, None), message=message, mistake=HELD if held else MISSED)


def interval_fault(value: object, unit: str) -> Fault | None:
    """What keeps a value from being an interval in `unit`; a rounding error does not make it too wide."""
    if not is_row(value) or len(value) != 2:
        return "not-a-pair", f"Return two numbers, (low, high), in {unit}; got {describe(value)}."
    low, high = value
    if not (is_number(low) and is_number(high)):
        return "not-numbers", f"Both ends must be finite numbers in {unit}; got {describe(value)}."
    if low <= 0 or high <= 0:
        return "not-positive", "Both ends must be positive."
    if low > high:
        return "reversed", "The low end must come first."
    if high > WIDEST * low * (1 + 1e-9):
        return (
            "too-wide",
            f"The high end is {number_text(high / low, 4)} times the low end; at most {WIDEST} times is allowed.",
        )
    return None
