"""What several judges of chapter 20 use: answers that refuse bad input with an error that names it."""

from collections.abc import Callable, Sequence

from course_grader.exercises.probes import or_refusal, refusal
from course_grader.exercises.values import describe
from course_grader.judging.mistakes import WHOLE, Fault, Wrong
from course_grader.judging.per_row import rows_fault
from course_grader.records import Case


def rows_fault_of(
    case: Case,
    value: Sequence[object],
    want: Callable[..., object],
    words: Callable[..., str],
    apart: Callable[..., str],
    named: Callable[..., Sequence[str]],
) -> Fault | None:
    """The first wrong row of what `rows_or_error` brings back. `apart` says how a value differs, "" if it does not;
    `named`: what the error for a row must name."""
    if fault := rows_fault(case, value):
        return fault
    for row, got in zip(case.args[1], value, strict=True):
        lead, right = f"{words(*row)}: ", or_refusal(want, *row)
        said = refusal(got)
        if refusal(right) is not None:
            missing = [word for word in named(*row) if word not in (said or "")]
            if said is None:
                return Wrong("", f"{lead}raise a ValueError for this input.", lead, WHOLE)
            if missing:
                return Wrong("", f"{lead}the ValueError must name {', '.join(missing)}.", lead)
        elif said is not None:
            return Wrong("", f"{lead}this input is right; it raised ValueError({describe(said)}).", lead)
        elif differs := apart(got, right):
            return Wrong("", lead + differs, lead, WHOLE)  # what is missing from two lists does not make them alike
    return None
