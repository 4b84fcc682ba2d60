"""What chapter 08's judges of arithmetic share: columns of numbers, some of which may be None, with slips by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.judging import describe, is_number, near
from course_lib.judging.columns import EXACT, rows_fault
from course_lib.judging.mistakes import Fault, Mistake, verdict
from course_lib.records import Case, Verdict, VerdictKind

CLOSE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One number of each row, or None: what it is called, what it must be, and how it goes wrong."""

    part: str
    unit: str
    want: Callable[..., Any]
    words: Callable[..., str]  # a row's arguments in words
    slips: Sequence[Mistake] = ()
    rel: float = CLOSE
    none: str = "no number helps here; that is `None`"  # what to say of a number where there is none
    some: str = "there is one; None is for where there is none"


def results(case: Case, value: Any, parts: Sequence[str] = ()) -> list[Any] | list[Verdict]:
    """What came back for each row of the case; or verdicts that say why there is nothing to judge."""
    fault = rows_fault(case, value)
    return [verdict(case.kind, part, case, fault) for part in parts or [case.part]] if fault else value


def told(found: Sequence[Any]) -> bool:
    """Whether these are verdicts already."""
    return bool(found) and all(isinstance(each, Verdict) for each in found)


def tuples(case: Case, found: Sequence[Any], names: Sequence[str], parts: Sequence[str]) -> list[Verdict]:
    """Verdicts on rows of which one is no tuple of so many numbers; nothing where all are."""
    for row in found:
        if type(row) not in (tuple, list) or len(row) != len(names):
            name = "returned-none" if row is None else "wrong-shape"
            fault = name, f"{case.name}: return ({', '.join(names)}); got {describe(row)}."
            return [verdict(case.kind, part, case, fault) for part in parts]
    return []


def judge(column: Column, case: Case, found: Sequence[Any], kind: VerdictKind | None = None, part: str = "") -> Verdict:
    """The verdict on one column: the first row that is wrong decides."""
    return verdict(kind or case.kind, part or column.part, case, fault_of(column, case, found))


def fault_of(column: Column, case: Case, found: Sequence[Any]) -> Fault | None:
    """What is wrong with the first row that is wrong."""
    rows = case.args[1]
    wants = [column.want(*row) for row in rows]
    for row, got, want in zip(rows, found, wants, strict=True):
        if _same(got, want, column.rel):
            continue
        if case.kind == "generality" and _constant(found) and not _constant(wants):
            return "only-the-example", f"{case.name}: the same comes back whatever the arguments are."
        return _named(column, row, got, want, list(zip(rows, found, wants, strict=True)))
    return None


def _explains(column: Column, slip: Mistake, row: Sequence[Any], got: Any, want: Any) -> bool:
    """Whether this slip leads to what came back for a row, and not to what is right."""
    value = slip.value(*row)
    return value is not None and not _same(value, want, column.rel) and _same(got, value, max(column.rel, EXACT))


def _named(column: Column, row: Sequence[Any], got: Any, want: Any, rows: Sequence[tuple[Any, Any, Any]]) -> Fault:
    """The fault of a row; of several slips that lead there, the one that explains the most rows."""
    lead = f"{column.words(*row)}: "
    if got is not None and not is_number(got):
        return "not-a-number", f"{lead}expected a number of {column.unit}, got {describe(got)}."
    if slips := [slip for slip in column.slips if _explains(column, slip, row, got, want)]:
        slip = max(slips, key=lambda each: sum(_explains(column, each, *given) for given in rows))
        return slip.name, lead + slip.message
    if got is None:
        return "returned-none", f"{lead}got None; {column.some if want is not None else column.none}."
    if want is None:
        return "none-helps", f"{lead}got {describe(got)}; {column.none}."
    if want and abs(got / want - 1) < 5e-4:
        return (
            "rounded",
            f"{lead}got {describe(got)} {column.unit}, close, but not exact: is something rounded on the way, or a small term left out?",
        )
    apart = f"{got / want:,.4g} times the right number" if want else "far from the right number"
    return "", f"{lead}got {describe(got)} {column.unit}, {apart}."


def _same(got: Any, want: Any, rel: float) -> bool:
    return got is None if want is None else near(got, want, rel)


def _constant(values: Sequence[Any]) -> bool:
    first = values[0]
    return len(values) > 1 and all(each is first or (is_number(first) and near(each, first, EXACT)) for each in values)
