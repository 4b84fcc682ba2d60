"""Judging rows of chapter 03 that return several values at once: numbers by columns, names by their own verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course_lib.judging import describe
from course_lib.judging.old_columns import Column, judge_column, pairs, table
from course_lib.records import Case, Outcome, Verdict, VerdictKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One word of each row: which words there are, which is right, and the known ways to another one."""

    part: str
    known: tuple[str, ...]
    want: Callable[..., str]
    words: Callable[..., str]
    slips: Mapping[str, tuple[Callable[..., str], str]] = field(default_factory=dict)  # name -> (its answer, message)


def judge_name(column: Name, case: Case, got: Sequence[Any], kind: VerdictKind) -> Verdict:
    """The verdict on one word a row: a slip is named if it gives the same word on every row of the case."""
    base = Verdict(kind=kind, part=column.part, ok=True, case=case.name)
    arguments = case.args[1]
    said = [value.strip().lower() if type(value) is str else value for value in got]
    wants = [column.want(*row) for row in arguments]
    if said == wants:
        return base
    for row, value in zip(arguments, said, strict=True):
        if type(value) is not str or value not in column.known:
            return replace(
                base,
                ok=False,
                mistake="no-such-word",
                message=f"{column.words(*row)}: expected one of "
                f"{', '.join(map(repr, column.known))}; got {describe(value)}.",
            )
    if len(set(said)) == 1 and len(set(wants)) > 1:
        return replace(
            base, ok=False, mistake="always-the-same", message=f"{case.name}: it is {said[0]!r} whatever is given."
        )
    for name, (answer, message) in column.slips.items():
        if said == [answer(*row) for row in arguments]:
            return replace(base, ok=False, mistake=name, message=message)
    row, value = next((row, value) for row, value, want in zip(arguments, said, wants, strict=True) if value != want)
    return replace(base, ok=False, message=f"{column.words(*row)}: it is not {value!r}.")


def together(by_place: Sequence[Column | Name], names: str) -> Callable[[Case, Outcome], list[Verdict]]:
    """The verdicts of a function that returns a pair or a triple, a part for each place; `names` says what to return."""

    def verdicts(case: Case, outcome: Outcome) -> list[Verdict]:
        got = table(outcome.value, case, by_place[0].part, case.kind)
        if not isinstance(got, Verdict):
            got = pairs(got, names, case, by_place[0].part, case.kind, len(by_place))
        if isinstance(got, Verdict):
            return [replace(got, part=column.part) for column in by_place]
        found = []
        for place, column in enumerate(by_place):
            values = [row[place] for row in got]
            judge = (
                judge_name(column, case, values, case.kind)
                if isinstance(column, Name)
                else judge_column(column, case, values, case.kind, inside=True)
            )
            found.append(judge)
        return found

    return verdicts
