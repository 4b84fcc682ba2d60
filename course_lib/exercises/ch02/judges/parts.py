"""Judging answers that are dictionaries of numbers by part: each part compared, its known slips named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.judging import Mistake, describe, first, is_number, near, number_verdict, verdict
from course_lib.judging.columns import rows_fault
from course_lib.records import Case, Outcome, Verdict

Want = Callable[..., Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a dictionary must hold: its parts, the numbers, and how each part goes wrong."""

    part: str  # the share
    unit: str
    want: Want
    words: Callable[..., str]
    slips: Mapping[str, Sequence[Mistake]]
    whole: Sequence[Mistake] = ()  # slips that return one number instead of the dictionary
    rel: float = 1e-9


def _fault(parts: Parts, case: Case, row: tuple[Any, ...], value: Any) -> tuple[str, str] | None:
    want, words = parts.want(*row), parts.words(*row)
    names = ", ".join(map(repr, want))
    if value is None:
        return "returned-none", "The function returned None: is a `return` missing?"
    if type(value) is not dict:
        if is_number(value) and near(value, sum(want.values()), parts.rel):
            return "one-number", f"{words}: the total is right; return it by part: {names}."
        for slip in parts.whole:
            if is_number(value) and near(value, slip.value(*row), parts.rel):
                return slip.name, f"{words}: {slip.message}"
        return "no-dictionary", f"{words}: return a dictionary with {names}; got {describe(value)}."
    if missing := [name for name in want if name not in value]:
        return "missing", f"{words}: there is no {missing[0]!r} in it; give {names}, 0 where there is nothing."
    if odd := [name for name in value if name not in want]:
        return "another-part", f"{words}: {describe(odd[0])} is none of {names}."
    for name, right in want.items():
        if near(value[name], right, parts.rel):
            continue
        known = [
            Mistake(slip.name, wrong, f"{words}, {name}: {slip.message}")
            for slip in parts.slips.get(name, ())
            if (wrong := slip.value(*row)) is not None and not near(float(wrong), right, parts.rel)
        ]
        base = Case(name=f"{words}, {name}", args=case.args)
        found = number_verdict(parts.part, base, value[name], right, unit=parts.unit, rel=parts.rel, mistakes=known)
        return found.mistake, found.message
    return None


def judge_parts(parts: Parts, case: Case, outcome: Outcome) -> list[Verdict]:
    """One verdict: the first row that is wrong, by its first wrong part."""
    if fault := rows_fault(case, outcome.value):
        return [verdict(case.kind, parts.part, case, fault)]
    faults = (_fault(parts, case, row, value) for row, value in zip(case.args[1], outcome.value, strict=True))
    return [verdict(case.kind, parts.part, case, first(*faults))]
