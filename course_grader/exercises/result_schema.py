"""What an answer returns, declared on its card and checked once before the judge sees it.

A card says `returns=PerRank(ListOf(Tensor()))`. What its probe brings back for a case must then be a list with one
entry for each rank, each of them a list of tensors; the first place where it is something else is named. Nothing here
imports torch.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from course_grader.exercises.probes import NOT_ANSWERED
from course_grader.exercises.values import describe, is_number, is_row
from course_grader.records import Case

Fault = tuple[str, str]
MOST_ITEMS = 100_000  # of one list: exercises ask for a few hundred


class Shape(Protocol):
    """A kind of value: `words` names it in a message."""

    @property
    def words(self) -> str:
        """What has to be returned, such as "a number in GB"."""

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """The first thing that is wrong with a value, as the mistake's name and the message; `where` leads the
        message."""


def _other(value: object, where: str, words: str, name: str = "wrong-shape") -> Fault:
    if value is None:
        return "returned-none", f"{where}: the result is None; return {words}. Is a `return` missing?"
    return name, f"{where}: return {words}; got {describe(value)}."


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever the judge looks at by itself; only None is refused."""

    words: str = "a value"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for None alone."""
        return _other(value, where, self.words) if value is None else None


@dataclass(frozen=True, slots=True)
class Number:
    """One finite int or float; `whole` asks for a whole number, which may be a float such as 3.0."""

    unit: str = ""
    whole: bool = False

    @property
    def words(self) -> str:
        """What has to be returned."""
        of = f" {'of' if self.whole else 'in'} {self.unit}" if self.unit else ""
        return f"a {'whole ' * self.whole}number{of}"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for bools, strings, NaN, infinity and everything else that is no such number."""
        if not is_number(value):
            return _other(value, where, self.words, "not-a-number")
        return _other(value, where, self.words, "not-whole") if self.whole and value != int(value) else None


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few strings."""

    choices: Sequence[str]

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"one of {', '.join(map(repr, self.choices))}"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for anything but one of the words; upper case and blanks around a word do not count."""
        known = type(value) is str and value.strip().lower() in {each.lower() for each in self.choices}
        return None if known else _other(value, where, self.words, "no-such-word")


@dataclass(frozen=True, slots=True)
class Maybe:
    """A shape, or None."""

    shape: Shape

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"{self.shape.words}, or None"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for what is neither None nor of the shape."""
        return None if value is None else self.shape.find(value, where, case)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list or tuple of values of one shape, `length` of them if that is given."""

    shape: Shape
    length: int | None = None
    what: str = "entry"

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"a list of {f'{self.length} ' * (self.length is not None)}values, each {self.shape.words}"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for anything but a list, for another length, and for the first entry that is wrong."""
        if not is_row(value) or len(value) > MOST_ITEMS or self.length not in (None, len(value)):
            return _other(value, where, self.words)
        found = (self.shape.find(each, f"{where}, {self.what} {at}", case) for at, each in enumerate(value))
        return next((fault for fault in found if fault), None)


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple or list with one named value for each of `fields`, in order."""

    fields: Mapping[str, Shape]

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"({', '.join(self.fields)})"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for anything but that many values, and for the first that is wrong."""
        if not is_row(value) or len(value) != len(self.fields):
            return _other(value, where, self.words)
        rows = zip(self.fields.items(), value, strict=True)
        found = (shape.find(each, f"{where}, {name}", case) for (name, shape), each in rows)
        return next((fault for fault in found if fault), None)


@dataclass(frozen=True, slots=True)
class DictOf:
    """A dictionary with exactly these keys, or with others too where `more` says so."""

    fields: Mapping[str, Shape]
    more: bool = False

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"a dictionary with {', '.join(map(repr, self.fields))}" if self.fields else "a dictionary"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for anything but a dictionary, for a key that is missing or unknown, and for the first value that is
        wrong."""
        if type(value) is not dict:
            return _other(value, where, self.words)
        if missing := [name for name in self.fields if name not in value]:
            return "missing-part", f"{where}: {', '.join(map(repr, missing))} is missing; return {self.words}."
        if not self.more and (extra := [name for name in value if name not in self.fields]):
            return "extra-part", f"{where}: {describe(extra[0])} was not asked for; return {self.words}."
        found = (shape.find(value[name], f"{where}, {name}", case) for name, shape in self.fields.items())
        return next((fault for fault in found if fault), None)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A torch tensor of any dtype and shape: the judge compares these with the right ones."""

    words: str = "a tensor"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for anything but a tensor."""
        torch = sys.modules.get("torch")
        return None if torch and isinstance(value, torch.Tensor) else _other(value, where, self.words, "not-a-tensor")


@dataclass(frozen=True, slots=True)
class PerRank:
    """What each rank returned, one value a rank."""

    shape: Shape

    @property
    def words(self) -> str:
        """What has to be returned."""
        return f"{self.shape.words} on every rank"

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for the first rank whose value is wrong."""
        if not is_row(value) or len(value) != case.ranks:
            return _other(value, where, self.words, "no-results")
        found = (self.shape.find(each, f"Rank {rank}", case) for rank, each in enumerate(value))
        return next((fault for fault in found if fault), None)


class Rows:
    """What the functions of an answer return, one shape a function, where the probe calls one of them on many rows.

    `case.args` is (index of the function, rows of arguments); what came back is a list with one value a row.
    """

    def __init__(self, *by_function: Shape) -> None:
        self.by_function = by_function

    @property
    def words(self) -> str:
        """What has to be returned."""
        return "; ".join(shape.words for shape in self.by_function)

    def find(self, value: object, where: str, case: Case) -> Fault | None:
        """A fault for a function that is not answered, for a row too few, and for the first row that is wrong."""
        index, rows = case.args
        if type(value) is str and value == NOT_ANSWERED:
            return "not-answered", f"{where}: this function is not answered yet."
        if type(value) is not list or len(value) != len(rows):
            return _other(value, where, "one result for each call")
        found = (self.by_function[index].find(each, where, case) for each in value)
        return next((fault for fault in found if fault), None)
