"""What several judges of chapter 20 use: answers that refuse bad input with an error that names it."""

from collections.abc import Callable, Sequence
from typing import Any

from course_grader.exercises.values import describe
from course_grader.judging.mistakes import WHOLE, Fault, Wrong
from course_grader.judging.per_row import rows_fault
from course_grader.records import Case


def caught(function: Callable[..., Any], *row: Any) -> Any:
    """What the worked answer gives for a row: a value, or {"error": the text of its ValueError}."""
    try:
        return function(*row)
    except ValueError as error:
        return {"error": str(error)}


def rows_fault_of(
    case: Case,
    value: Any,
    want: Callable[..., Any],
    words: Callable[..., str],
    apart: Callable[[Any, Any], str],
    named: Callable[..., Sequence[str]],
) -> Fault | None:
    """The first wrong row of what `rows_or_error` brings back. `apart` says how a value differs, "" if it does not;
    `named`: what the error for a row must name."""
    if fault := rows_fault(case, value):
        return fault
    for row, got in zip(case.args[1], value, strict=True):
        lead, right = f"{words(*row)}: ", caught(want, *row)
        raised = type(got) is dict and set(got) == {"error"} and type(got["error"]) is str
        if type(right) is dict and set(right) == {"error"}:
            missing = [word for word in named(*row) if not raised or word not in got["error"]]
            told = f"the ValueError must name {', '.join(missing)}." if raised else "raise a ValueError for this input."
            if missing or not raised:
                return Wrong("", lead + told, lead)
        elif raised:
            return Wrong("", f"{lead}this input is right; it raised ValueError({describe(got['error'])}).", lead)
        elif said := apart(got, right):
            return Wrong("", lead + said, lead, WHOLE)  # what is missing from two lists does not make them alike
    return None
