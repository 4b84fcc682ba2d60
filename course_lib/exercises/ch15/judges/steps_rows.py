"""What chapter 15's judges of steps share: several numbers by name that come back together, and how they go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course_lib.judging import Fault, Mistake, describe, is_number
from course_lib.records import Case

REL, FLOOR = 1e-6, 1e-9  # of a number, and of the largest one beside it: differences of large numbers are no rounder
ONLY = "only-the-example"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Numbers by name for each row: what they must be, what is said of a row, and whole wrong ways, the likeliest first."""

    unit: str
    want: Callable[..., Mapping[Any, float]]
    words: Callable[..., str]
    slips: Sequence[Mistake] = ()
    named: str = "a dictionary"  # what has to come back
    grain: float = 0.0  # how far off a number may be because it was rounded, in its unit


def fault_of_parts(parts: Parts, case: Case, found: Sequence[Any], keys: Sequence[Any] = ()) -> Fault | None:
    """What is wrong with the first row in which one of `keys` (all, without any) is wrong."""
    table = case.args[1]
    for row, got in zip(table, found, strict=True):
        want = parts.want(*row)
        if fault := _shape(parts, row, got, want):
            return fault
        for key in keys or want:
            if not same(got[key], want[key], want) and not abs(got[key] - want[key]) <= parts.grain:
                if case.kind == "generality" and len(found) > 1 and all(each == found[0] for each in found):
                    return ONLY, f"{case.name}: the same comes back whatever the arguments are."
                return _named(parts, table, found, row, got, want, key)
    return None


def same(got: Any, want: float, beside: Mapping[Any, float]) -> bool:
    """Whether a number is the right one, up to rounding of the numbers that it came from."""
    if not is_number(got):
        return False
    scale = sum(abs(each) for each in beside.values())
    return abs(got - want) <= max(REL * abs(want), FLOOR * scale, 1e-15)


def _shape(parts: Parts, row: Sequence[Any], got: Any, want: Mapping[Any, float]) -> Fault | None:
    lead, names = parts.words(*row), ", ".join(map(str, want))
    if type(got) is not dict:
        name = "returned-none" if got is None else "wrong-shape"
        return name, f"{lead}: return {parts.named} with {names}; got {describe(got)}."
    if missing := [key for key in want if key not in got]:
        return "missing-part", f"{lead}: {', '.join(map(repr, missing))} is missing."
    if extra := [key for key in got if key not in want]:
        return "extra-part", f"{lead}: {describe(extra[0])} was not asked for; there are {names}."
    if odd := [key for key in want if not is_number(got[key])]:
        return "not-a-number", f"{lead}: {odd[0]} is {describe(got[odd[0]])}; expected a number of {parts.unit}."
    return None


def _named(
    parts: Parts,
    table: Sequence[Any],
    found: Sequence[Any],
    row: Sequence[Any],
    got: Mapping[Any, Any],
    want: Mapping[Any, float],
    key: Any,
) -> Fault:
    """The wrong way that all rows went, else the first that leads to this number."""
    lead = f"{parts.words(*row)}: {key}: "
    here = [slip for slip in parts.slips if _explains(slip, row, got, want, key)]
    for slip in (*(slip for slip in here if _everywhere(parts, slip, table, found)), *here):
        return slip.name, lead + slip.message
    apart = f"{got[key] / want[key]:,.4g} times the right number" if want[key] else "and it is 0"
    return "", f"{lead}got {describe(got[key])} {parts.unit}, {apart}."


def _explains(slip: Mistake, row: Sequence[Any], got: Mapping[Any, Any], want: Mapping[Any, float], key: Any) -> bool:
    value = slip.value(*row)
    return (
        value is not None
        and key in value
        and not same(value[key], want[key], want)
        and same(got[key], value[key], value)
    )


def _everywhere(parts: Parts, slip: Mistake, table: Sequence[Any], found: Sequence[Any]) -> bool:
    """Whether every number of every row is what this wrong way gives."""
    for row, got in zip(table, found, strict=True):
        want = parts.want(*row)
        value = {**want, **(slip.value(*row) or {})}
        if not isinstance(got, dict) or not all(same(got.get(key), value[key], value) for key in want):
            return False
    return True
