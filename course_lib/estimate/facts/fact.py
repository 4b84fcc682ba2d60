"""A number that carries its unit, source, date and condition, and the small readers of the data files."""

import csv
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TypeVar

from course_lib.estimate import units

_TO_BASE = {
    "TFLOP/s": (1e12, "FLOP/s"),
    "GB/s": (1e9, "B/s"),
    "GB": (1e9, "B"),
    "param": (1.0, "parameters"),
    "token": (1.0, "tokens"),
}
_COUNTED = {"day", "failure", "month", "year", "device", "rank"}
Entry = TypeVar("Entry")


class Fact(float):
    """A number in base units with `.unit`, `.source`, `.date` and `.condition`.

    It behaves as a float; arithmetic gives plain floats, so a result never claims a source it does not have.
    """

    __slots__ = ("condition", "date", "source", "unit")

    unit: str
    source: str
    date: str
    condition: str

    def __new__(cls, value: float, unit: str, source: str, date: str, condition: str) -> "Fact":
        """The fact, with every word about it required."""
        fact = super().__new__(cls, value)
        said = {"unit": unit, "source": source, "date": date, "condition": condition}
        for name, text in said.items():
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"A fact of {value} has no {name}; say it, or it is not a fact.")
            setattr(fact, name, text)
        return fact

    def __getnewargs__(self) -> tuple[float, str, str, str, str]:  # type: ignore[override]  # the stub forbids subclasses with more
        """What copying and pickling need."""
        return float(self), self.unit, self.source, self.date, self.condition

    def __repr__(self) -> str:
        """The number as people write it, with what stands behind it."""
        return f"{self.text} ({self.condition}; {self.source}, {self.date})"

    def __str__(self) -> str:
        """The bare number, as for a float."""
        return float.__repr__(self)

    @property
    def text(self) -> str:
        """The number with a readable unit: "80 GB", "989 TFLOP/s"."""
        base, _, per = self.unit.partition("/")
        if base == "B":
            shown = units.bytes_text(self)
        elif self.unit == "FLOP/s":
            return units.rate_text(self)
        elif base == "FLOP":
            shown = units.flops_text(self)
        elif self.unit == "fraction":
            return units.percent_text(self)
        elif base == "USD":
            shown = units.money_text(self)
        else:
            many = "s" if self != 1 and base in _COUNTED else ""
            shown = f"{units.number_text(self)} {base}{many}"
        return f"{shown}/{per}" if per else shown


class Number:
    """A field of a sheet. Reading it gives its fact, or a ValueError where no source that we trust has one."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Python says under which name a sheet holds it."""
        self.name = name

    def __get__(self, sheet: "Sheet", owner: type) -> Fact:
        """The fact of this sheet."""
        fact = sheet.get(self.name)
        if fact is None:
            raise ValueError(f"No source that we trust gives {self.name} of {sheet.name}.")
        return fact


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What is known of one thing: a name, and those of its numbers that have a source."""

    name: str
    numbers: Mapping[str, Fact] = field(hash=False)

    def __post_init__(self) -> None:
        for number in self.numbers:
            self._known(number)

    def get(self, number: str) -> Fact | None:
        """The fact in the field called `number`, or None where no source that we trust has one."""
        self._known(number)
        return self.numbers.get(number)

    def _known(self, number: str) -> None:
        if not isinstance(vars(type(self)).get(number), Number):
            raise AttributeError(f"A {type(self).__name__} has no number {number!r}.")


@dataclass(frozen=True, slots=True)
class Reference:
    """A source: who, what, when, where, and the numbers of this course that rest on it."""

    key: str
    kind: str  # paper, book, model card, datasheet, documentation, data, page, lesson, assumption
    authors: str
    title: str
    year: int
    date: str
    url: str
    supports: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """One line: authors, title, year."""
        lead = "" if self.authors.lower() in self.title.lower() else f"{self.authors}, "
        return f"{lead}{self.title}" if self.kind == "lesson" else f"{lead}{self.title} ({self.year})"


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one data file, as dictionaries of text."""
    text = files("course_lib.estimate.facts").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def fact_of(row: dict[str, str]) -> Fact:
    """The fact in a row with value, unit, condition, source (a key) and date."""
    scale, unit = _TO_BASE.get(row["unit"], (1.0, row["unit"]))
    source = reference(row["source"]).short
    return Fact(float(row["value"]) * scale, unit, source, row["date"], row["condition"])


@cache
def _references() -> dict[str, Reference]:
    supports: dict[str, list[str]] = {}
    for row in rows("supports.csv"):
        supports.setdefault(row["source"], []).append(row["number"])
    return {
        row["key"]: Reference(
            key=row["key"],
            kind=row["kind"],
            authors=row["authors"],
            title=row["title"],
            year=int(row["year"]),
            date=row["date"],
            url=row["url"],
            supports=tuple(supports.get(row["key"], ())),
        )
        for row in rows("sources.csv")
    }


def reference(key: str) -> Reference:
    """The source with this key, such as "zero-2019" or "kaplan-2020"."""
    return find("reference", key, _references())


def references() -> dict[str, Reference]:
    """All sources by key."""
    return dict(_references())


def find(what: str, name: str, known: Mapping[str, Entry]) -> Entry:
    """The entry called `name`, in any case; else a ValueError that lists the names nearest to it."""
    if isinstance(name, str):
        if name in known:
            return known[name]
        folded = {key.casefold(): key for key in known}
        if name.strip().casefold() in folded:
            return known[folded[name.strip().casefold()]]
    raise ValueError(f"No {what} called {name!r}. {_near(str(name), list(known))}")


def _near(name: str, known: Iterable[str]) -> str:
    known = list(known)
    parts = [key for key in known if name.strip() and name.strip().casefold() in key.casefold()]
    close = parts or difflib.get_close_matches(name, known, n=5, cutoff=0.4)
    if close:
        return f"Near it: {', '.join(close[:8])}."
    return f"There are: {', '.join(known[:12])}{' …' if len(known) > 12 else ''}."
