"""One number against the oracle's."""

from course_grader.exercises.values import describe, is_number, near, times
from course_grader.judging.mistakes import Fault, Wrong, verdict
from course_grader.judging.unit_slips import unit_slip
from course_grader.records import Case, Verdict, VerdictKind


def number_fault(where: str, got: object, want: float, *, unit: str, rel: float = 1e-6, hint: str = "") -> Fault | None:
    """What is wrong with one number: how far off it is, never the answer."""
    if near(got, want, rel):
        return None
    if got is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if not is_number(got):
        return "not-a-number", f"Expected one number in {unit}, got {describe(got)}."
    if slip := unit_slip(unit, [got], [want]):
        return slip[0], f"{where}: {slip[1]}"
    return Wrong("", f"{where}: got {describe(got)} {unit}, {times(got, want)}. {hint}".strip(), f"{where}: ")


def number_verdict(
    part: str,
    case: Case,
    got: object,
    want: float,
    *,
    unit: str,
    rel: float = 1e-6,
    kind: VerdictKind = "values",
    hint: str = "",
) -> Verdict:
    """The verdict on one number."""
    return verdict(kind, part, case, number_fault(case.name, got, want, unit=unit, rel=rel, hint=hint))
