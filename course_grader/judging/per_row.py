"""Answers that are called on many rows, and what each value of a row must be.

The probe `rows` calls function i of an answer on every row of `case.args = (i, rows)`. `table(...)` makes the verdicts
of such an exercise from one column a function, or from a tuple of columns for a function that returns a tuple. A
column without `want` compares with what the worked answer's function returns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NoReturn

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import describe, is_number, near, same_value, times
from course_grader.judging.contract import Oracle, Params
from course_grader.judging.mistakes import Fault, Wrong, led, verdict
from course_grader.judging.unit_slips import unit_slip
from course_grader.judging.worked import Worked
from course_grader.records import Case, Outcome, Verdict
from course_lib.messages import count_text

CLOSE = 1e-3  # relative: passes GB to four digits and years of 365 days, not a slope in place of a difference
FINE = 1e-6
EXACT = 1e-9  # counts


def _as_worked(*row: object) -> NoReturn:
    """In place of a column's `want`: what the worked answer returns, which only a table knows."""
    raise TypeError("A column without `want` belongs into a table with the worked answer.")


@dataclass(frozen=True, slots=True)
class Column:
    """One number of each row, or None where no number is right: its share, its unit and the right value."""

    part: str
    unit: str
    _: KW_ONLY
    want: Callable[..., Any] = _as_worked  # of a row's arguments
    words: Callable[..., str]  # a row's arguments in words
    rel: float = CLOSE
    hint: str = ""
    none: str = "no number is right here; return None"  # said of a number where None is right
    some: str = ""  # said of None where a number is right, in a column in which None can be right too

    def fault(self, case: Case, values: Sequence[object]) -> Fault | None:
        """What is wrong with the first wrong row."""
        rows = case.args[1]
        wants = [self.want(*row) for row in rows]
        for row, got, want in zip(rows, values, wants, strict=True):
            if same_value(got, want, self.rel):
                continue
            if got is not None and not case.visible and _constant(values) and not _constant(wants):
                return "only-the-example", f"{case.name}: the same value comes back whatever the arguments are."
            return self._named(row, got, want, values, wants)
        return None

    def _named(
        self,
        row: Sequence[object],
        got: object,
        want: float | None,
        values: Sequence[object],
        wants: Sequence[float | None],
    ) -> Fault:
        lead = f"{self.words(*row)}: "
        if got is not None and not is_number(got):
            return "not-a-number", f"{lead}expected a number in {self.unit}, got {describe(got)}."
        if slip := unit_slip(self.unit, values, wants):
            return Wrong(slip[0], lead + slip[1], lead)
        if got is None and self.some and any(each is not None for each in values):
            return Wrong("some-is-right", f"{lead}got None, but {self.some}.", lead)
        if got is None:
            told = self.some or "a number is right here"
            meant = None in wants or any(each is not None for each in values)  # then a None may be an answer
            asked = "" if meant else " Is a `return` missing?"
            return Wrong("returned-none", f"{lead}the result is None; {told}.{asked}", lead)
        if want is None:
            return Wrong("none-is-right", f"{lead}got {describe(got)}; {self.none}.", lead)
        if want and self.rel < 5e-4 and abs(got / want - 1) < 5e-4:
            off = f"off by {100 * abs(got / want - 1):.2g} %, more than rounding in floating point explains"
            return Wrong("rounded", f"{lead}got {describe(got)} {self.unit}: {off}.", lead)
        return Wrong("", f"{lead}got {describe(got)} {self.unit}, {times(got, want)}. {self.hint}".strip(), lead)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of each row, out of `choices`, of which None may be one."""

    part: str
    choices: Sequence[str | None]
    _: KW_ONLY
    want: Callable[..., str | None] = _as_worked
    words: Callable[..., str]

    def fault(self, case: Case, values: Sequence[object]) -> Fault | None:
        """What is wrong with the words; upper case and blanks around a word do not count."""
        rows = case.args[1]
        said = [value.strip().lower() if type(value) is str else value for value in values]
        wants = [self.want(*row) for row in rows]
        if said == wants:
            return None
        for row, value in zip(rows, said, strict=True):
            if type(value) not in (str, type(None)) or value not in self.choices:
                choices = ", ".join(map(repr, self.choices))
                return "no-such-word", f"{self.words(*row)}: expected one of {choices}; got {describe(value)}."
        if len(set(said)) == 1 and len(set(wants)) > 1:
            return Wrong("always-the-same", f"{case.name}: not all {len(said)} are {said[0]!r}.", f"{case.name}: ")
        row, value = next((row, value) for row, value, want in zip(rows, said, wants, strict=True) if value != want)
        return Wrong("", f"{self.words(*row)}: it is not {value!r}.", f"{self.words(*row)}: ")


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A dictionary of numbers of each row."""

    part: str
    unit: str
    _: KW_ONLY
    want: Callable[..., Mapping[str, float]] = _as_worked
    words: Callable[..., str]
    rel: float = FINE
    grain: float = 0.0  # how far off a number may be because it was rounded, in its unit
    floor: float = EXACT  # of the sum of all parts: how far off a part may be that is a difference; 0 for exact counts
    only: Sequence[str] = ()  # the keys that are judged here; all of them by default

    def fault(self, case: Case, values: Sequence[object]) -> Fault | None:
        """What is wrong with the first wrong part of the first wrong row."""
        rows = case.args[1]
        for row, got in zip(rows, values, strict=True):
            want = self.want(*row)
            if fault := self._shape(row, got, want):
                return fault
            assert isinstance(got, dict)
            for key in self.only or want:
                if self._same(got[key], want[key], want):
                    continue
                if not case.visible and len(values) > 1 and all(each == values[0] for each in values):
                    return "only-the-example", f"{case.name}: the same value comes back whatever the arguments are."
                lead = f"{self.words(*row)}, {key}: "
                apart = times(got[key], want[key]) if want[key] else "where 0 is right"
                return Wrong("", f"{lead}got {describe(got[key])} {self.unit}, {apart}.", lead, (key,))
        return None

    def _same(self, got: object, want: float, beside: Mapping[str, float]) -> bool:
        """Whether a number is right, up to the rounding of the numbers that it is a difference of."""
        if not is_number(got):
            return False
        scale = sum(abs(each) for each in beside.values())
        return abs(got - want) <= max(self.rel * abs(want), self.floor * scale, 1e-15, self.grain)

    def _shape(self, row: Sequence[object], got: object, want: Mapping[str, float]) -> Fault | None:
        lead, names = self.words(*row), ", ".join(map(repr, want))
        if type(got) is not dict:
            if is_number(got) and near(got, sum(want.values()), self.rel):
                return "one-number", f"{lead}: the total is right; return it by part: {names}."
            name = "returned-none" if got is None else "wrong-shape"
            return name, f"{lead}: return a dictionary with {names}; got {describe(got)}."
        if missing := [key for key in want if key not in got]:
            return "missing-part", f"{lead}: {', '.join(map(repr, missing))} is missing; return {names}."
        if extra := [key for key in got if key not in want]:
            return "extra-part", f"{lead}: {describe(extra[0])} was not asked for; return {names}."
        if odd := [key for key in want if not is_number(got[key])]:
            return "not-a-number", f"{lead}: {odd[0]} is {describe(got[odd[0]])}; expected a number in {self.unit}."
        return None


@dataclass(frozen=True, slots=True)
class Series:
    """A list of numbers of each row; its card declares that."""

    part: str
    _: KW_ONLY
    want: Callable[..., Sequence[float]] = _as_worked
    words: Callable[..., str]
    each: str = "place"  # what a number belongs to, such as a stage
    apart: Callable[[Sequence[float], Sequence[float]], Fault] | None = None  # what to say of a wrong list: got, want
    rel: float = CLOSE

    def fault(self, case: Case, values: Sequence[Sequence[float]]) -> Fault | None:
        """What is wrong with the first wrong row."""
        for row, got in zip(case.args[1], values, strict=True):
            want, lead = self.want(*row), f"{self.words(*row)}: "
            if self._same(got, want):
                continue
            apart = Wrong(*(self.apart or self._apart)(got, want))
            return apart._replace(message=lead + apart.message, lead=lead)
        return None

    def _apart(self, got: Sequence[float], want: Sequence[float]) -> Fault:
        if len(got) != len(want):
            return "wrong-length", f"return one number for each {self.each}: {len(want)}; got {len(got)}."
        pairs = enumerate(zip(got, want, strict=True))
        return next(("", f"{self.each} {at} is {times(*pair)}.") for at, pair in pairs if not near(*pair, self.rel))

    def _same(self, got: Sequence[float], want: Sequence[float]) -> bool:
        return len(got) == len(want) and all(near(*pair, self.rel) for pair in zip(got, want, strict=True))


@dataclass(frozen=True, slots=True)
class Checked:
    """What no other column describes: `wrong` finds the fault of a row from its arguments, the result and the right
    one."""

    part: str
    wrong: Callable[[Any, Any, Any], Fault | None]
    _: KW_ONLY
    want: Callable[..., Any] = _as_worked
    words: Callable[..., str] | None = None  # by default the name of the case
    where: tuple[object, ...] = ()  # of the fault: WHOLE where only a mistake that explains all of a result is named

    def fault(self, case: Case, values: Sequence[object]) -> Fault | None:
        """What is wrong with the first wrong row."""
        for row, got in zip(case.args[1], values, strict=True):
            if found := self.wrong(row, got, self.want(*row)):
                fault = led(self.words(*row) if self.words else case.name, found)
                return fault._replace(where=fault.where or self.where)
        return None


AnyColumn = Column | Word | Breakdown | Series | Checked


def table(*by_function: AnyColumn | Sequence[AnyColumn], right: Worked | None = None) -> Oracle:
    """The verdicts of an exercise whose functions are called on rows: function i by column i.

    A sequence of columns judges a function that returns a tuple, one column a place and one verdict a column. `right`
    is the worked answer, for columns without `want`. A column whose part is "" judges each case's own.
    """
    several = [not isinstance(asked, AnyColumn) for asked in by_function]
    columns = [
        [_wanting(column, right, at, place if several[at] else None) for place, column in enumerate(_listed(asked))]
        for at, asked in enumerate(by_function)
    ]

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        at = case.args[0]
        asked = columns[at]
        if fault := rows_fault(case, outcome.value, several[at] * len(asked)):
            return [verdict(case.kind, column.part or case.part, case, fault) for column in asked]
        places = zip(*outcome.value, strict=True) if several[at] else [outcome.value]
        faults = [column.fault(case, list(values)) for column, values in zip(asked, places, strict=True)]
        found = [fault and Wrong(*fault) for fault in faults]
        if several[at]:
            found = [each and each._replace(where=(place, *each.where)) for place, each in enumerate(found)]
        pairs = zip(asked, found, strict=True)
        return [verdict(case.kind, column.part or case.part, case, each) for column, each in pairs]

    return verdicts


def _listed(asked: AnyColumn | Sequence[AnyColumn]) -> Sequence[AnyColumn]:
    return [asked] if isinstance(asked, AnyColumn) else asked


def _wanting(column: AnyColumn, right: Worked | None, at: int, place: int | None) -> AnyColumn:
    """The column, which compares with function number `at` of the worked answer if it names nothing else: with all that
    this returns, or with one place of it."""
    if right is None or column.want is not _as_worked:
        return column
    function = right[at]
    return replace(column, want=function if place is None else lambda *row: function(*row)[place])


def shares(**parts: tuple[float, float]) -> dict[str, float]:
    """The points of a table's parts: the share of each in the values shown and in generality, 0 for none."""
    kinds = ("values", "generality")
    return {f"{kind}:{part}": both[at] for at, kind in enumerate(kinds) for part, both in parts.items() if both[at]}


def one_verdict(oracle: Oracle) -> Oracle:
    """The oracle with one verdict a case, under the case's own part: the first one that fails."""

    def verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
        found = oracle(params, case, outcome)
        return [replace(next((each for each in found if not each.ok), found[0]), part=case.part)]

    return verdicts


def rows_fault(case: Case, value: object, size: int = 0) -> Fault | None:
    """What keeps a value from being one result for each row, each a tuple of `size` values if that is given."""
    if type(value) is str and value == NOT_ANSWERED:
        return "not-answered", f"{case.name}: this function is not answered yet."
    if type(value) is not list or len(value) != len(case.args[1]):
        return "wrong-shape", f"Expected one result for each call, got {describe(value)}."
    odd = [row for row in value if size and (type(row) not in (tuple, list) or len(row) != size)]
    if odd:
        name = "returned-none" if odd[0] is None else "wrong-shape"
        return name, f"{case.name}: return {size} values; got {describe(odd[0])}."
    return None


def _constant(values: Sequence[Any]) -> bool:
    """Whether several rows have one and the same value."""
    return len(values) > 1 and all(same_value(each, values[0], EXACT) for each in values)


def gpus_text(count: float) -> str:
    """A number of GPUs in words: 1 GPU, 8 GPUs."""
    return count_text(count, "GPU")
