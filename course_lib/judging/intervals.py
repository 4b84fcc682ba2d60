"""The judge of an interval that a learner commits to before a number is revealed: any positive one that is not too wide."""

from course_lib.judging import Params, is_number
from course_lib.judging.faults import Fault, verdict
from course_lib.records import Case, Outcome, Verdict

WIDEST = 4  # times the low end: a wider one commits to nothing


def interval_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    """Whether the answer is a pair of seconds, in order and not too far apart."""
    got = outcome.value
    fault: Fault | None = None
    if type(got) not in (tuple, list) or len(got) != 2 or not all(is_number(each) for each in got):
        fault = ("no-pair", "Return a pair of numbers (low, high), in seconds.")
    elif not 0 < got[0] <= got[1]:
        fault = ("not-an-interval", "The interval must be positive, and its low end not above its high end.")
    elif got[1] > WIDEST * got[0]:
        fault = (
            "too-wide",
            f"From end to end that is a factor of {got[1] / got[0]:.3g}; commit yourself to four at most.",
        )
    return [verdict("values", "interval", case, fault)]
