"""Judging many rows of one case: an oracle and named slips per column, the first wrong row named by its arguments."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Mistake, describe, is_number, near, number_verdict
from course_lib.records import Case, Verdict, VerdictKind

CLOSE = 1e-3  # relative: GB to four digits and years of 365 days pass, a slope for a difference does not
EXACT = 1e-9  # counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One number of each row: what it is called, what it must be, and how it goes wrong."""

    part: str
    unit: str
    want: Callable[..., float]
    words: Callable[..., str]  # a row's arguments in words
    slips: tuple[Mistake, ...] = ()
    rel: float = CLOSE
    hint: str = ""


def table(got: Any, case: Case, part: str, kind: VerdictKind) -> list[Any] | Verdict:
    """What came back for the case's rows, or the verdict on an answer that is not there."""
    failed = Verdict(kind=kind, part=part, ok=False, case=case.name)
    if type(got) is str and got == NOT_ANSWERED:
        return replace(failed, mistake="not-answered", message=f"{case.name}: this function is not answered yet.")
    if type(got) is not list or len(got) != len(case.args[1]):
        return replace(failed, mistake="no-rows", message=f"Expected one result for each call, got {describe(got)}.")
    return got


def pairs(got: list[Any], names: str, case: Case, part: str, kind: VerdictKind, size: int = 2) -> list[Any] | Verdict:
    """The rows where each is a tuple or list of `size` values, or the verdict on the first that is not."""
    for row in got:
        if type(row) not in (tuple, list) or len(row) != size:
            return Verdict(
                kind=kind,
                part=part,
                ok=False,
                case=case.name,
                mistake="wrong-shape",
                message=f"{case.name}: return {names}; got {describe(row)}.",
            )
    return got


def judge_column(column: Column, case: Case, got: Sequence[Any], kind: VerdictKind, inside: bool = False) -> Verdict:
    """The verdict on one column: holds if every row does, else the first wrong row's, in the learner's terms.

    `inside`: the column is one value of several that come back together.
    """
    arguments = case.args[1]
    for row, value in zip(arguments, got, strict=True):
        want = column.want(*row)
        if near(value, want, column.rel):
            continue
        if not case.visible and _constant(got, [column.want(*each) for each in arguments], column.rel):
            return Verdict(
                kind=kind,
                part=column.part,
                ok=False,
                case=case.name,
                mistake="only-the-example",
                message=f"{case.name}: the same number comes back whatever the arguments are.",
            )
        words = column.words(*row)
        if inside and value is None:
            return Verdict(
                kind=kind,
                part=column.part,
                ok=False,
                case=case.name,
                mistake="returned-none",
                message=f"{words}: {column.part} is None; a number of {column.unit} is asked for.",
            )
        known = [
            Mistake(slip.name, slipped, f"{words}: {slip.message}")
            for slip in column.slips
            if (slipped := slip.value(*row)) is not None
        ]
        return number_verdict(
            column.part,
            replace(case, name=words),
            value,
            want,
            unit=column.unit,
            rel=column.rel,
            kind=kind,
            mistakes=known,
            hint=column.hint,
        )
    return Verdict(kind=kind, part=column.part, ok=True, case=case.name)


def _constant(got: Sequence[Any], wants: Sequence[float], rel: float) -> bool:
    """Whether one number is given for rows that ask for several."""
    asked_several = any(not near(float(want), float(wants[0]), rel) for want in wants)
    return len(got) > 2 and asked_several and all(is_number(value) and value == got[0] for value in got)


def columns(*by_index: Column) -> Callable[[Any, Case, Any], list[Verdict]]:
    """The `verdicts` of an exercise whose functions each return one number: function i is judged by column i."""

    def verdicts(_: Any, case: Case, outcome: Any) -> list[Verdict]:
        column = by_index[case.args[0]]
        got = table(outcome.value, case, column.part, case.kind)
        return [got if isinstance(got, Verdict) else judge_column(column, case, got, case.kind)]

    return verdicts


def gpus_text(count: float) -> str:
    """A number of GPUs in words: 1 GPU, 8 GPUs."""
    return f"{count:,g} GPU{'' if count == 1 else 's'}"
