"""The course about itself: chapters, the map and its routes, thesis table, glossary, symbols, outcomes."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import find, rows

_HYPHENATED = {"multi gpu": "multi-GPU", "trade off": "trade-off", "post training": "post-training"}


@dataclass(frozen=True, slots=True)
class Chapter:
    """One chapter: its question, the property that its strategy uses, the constraint it removes and the one it
    reveals."""

    number: str
    folder: str
    question: str
    property: str
    relieved: str
    created: str

    @builtins.property  # `property` is a field here
    def title(self) -> str:
        """Number and name for a menu: "06 collectives"."""
        return f"{self.number} {self.name}"

    @builtins.property
    def name(self) -> str:
        """The name in words, with the hyphens that folders leave out."""
        words = self.folder[3:].replace("_", " ")
        for plain, hyphenated in _HYPHENATED.items():
            words = words.replace(plain, hyphenated)
        return words


@dataclass(frozen=True, slots=True)
class Node:
    """One idea of the map: its prerequisites, the pressure that it belongs to, and where it returns."""

    key: str
    concept: str
    needs: tuple[str, ...]  # keys of other nodes
    prerequisite: str
    pressure: str
    layer: str
    home: str  # the chapter that teaches it
    chapters: tuple[str, ...]
    recurs: str
    place: tuple[float, float]  # column and row in the drawing


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something that goes wrong, and the chapters to open, in order, each with its reason."""

    symptom: str
    looks_like: str
    nodes: tuple[str, ...]
    chapters: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two mechanisms that compete for one resource, and the question to ask about them."""

    pair: str
    one: str
    other: str
    question: str
    chapters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One row of the thesis: what is split, the property that allows it, and the communication that it needs."""

    strategy: str
    cuts: str
    property: str
    because: str
    collective: str
    operation: str
    chapter: str


@dataclass(frozen=True, slots=True)
class Term:
    """One entry of the glossary."""

    term: str
    meaning: str
    chapter: str
    note: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """One meaning of a letter, its unit, and what other texts call the same thing."""

    symbol: str
    meaning: str
    unit: str
    elsewhere: str
    chapters: tuple[str, ...]  # where it means this; (): everywhere but in chapters with a meaning of their own
    counts: tuple[str, ...]  # nouns that can follow it: "ranks" in "N ranks"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One of the four things the course makes a person able to do."""

    outcome: str
    you_can: str
    shown_by: str


@cache
def chapters() -> dict[str, Chapter]:
    """All chapters by number."""
    return {row["number"]: Chapter(**row) for row in rows("course_chapters.csv")}


def chapter(number: str) -> Chapter:
    """The chapter with this two-digit number."""
    return find("chapter", number, chapters())


@cache
def nodes() -> dict[str, Node]:
    """The ideas of the map by key, in reading order."""
    made = {}
    for row in rows("course_map.csv"):
        column, line = row["place"].split()
        made[row["key"]] = Node(
            **{name: row[name] for name in ("key", "concept", "prerequisite", "pressure", "layer", "home", "recurs")},
            needs=tuple(row["needs"].split()),
            chapters=tuple(row["chapters"].split()),
            place=(float(column), float(line)),
        )
    return made


@cache
def symptoms() -> dict[str, Symptom]:
    """The failure route: symptoms by name."""
    made = {}
    for row in rows("course_failures.csv"):
        steps = (step.split("|") for step in row["chapters"].split(";"))
        pairs = tuple((number, reason) for number, reason in steps)
        made[row["symptom"]] = Symptom(row["symptom"], row["looks_like"], tuple(row["nodes"].split()), pairs)
    return made


@cache
def conflicts() -> dict[str, Conflict]:
    """The synthesis route: pairs of mechanisms by name."""
    return {
        row["pair"]: Conflict(row["pair"], row["one"], row["other"], row["question"], tuple(row["chapters"].split()))
        for row in rows("course_synthesis.csv")
    }


@cache
def thesis() -> dict[str, Strategy]:
    """The thesis table: strategies by name."""
    return {row["strategy"]: Strategy(**row) for row in rows("course_thesis.csv")}


@cache
def glossary() -> dict[str, Term]:
    """Terms by name."""
    return {row["term"]: Term(**row) for row in rows("course_glossary.csv")}


@cache
def every_symbol() -> tuple[Symbol, ...]:
    """All meanings of all letters: those of the whole course, and then those of single chapters."""
    return tuple(
        Symbol(
            **{name: row[name] for name in ("symbol", "meaning", "unit", "elsewhere")},
            chapters=tuple(row["chapters"].split()),
            counts=tuple(noun for noun in row["counts"].split("|") if noun),
        )
        for row in rows("course_symbols.csv")
    )


@cache
def symbols(chapter: str = "") -> dict[str, Symbol]:
    """What letters mean in the whole course, or in one chapter, whose own meanings come first."""
    found = {each.symbol: each for each in every_symbol() if not each.chapters}
    return found | {each.symbol: each for each in every_symbol() if chapter in each.chapters}


@cache
def outcomes() -> dict[str, Outcome]:
    """What the course makes a person able to do."""
    return {row["outcome"]: Outcome(**row) for row in rows("course_outcomes.csv")}


def out_of_order(order: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs (idea, what it needs) where an order of the map's ideas names the idea before what it needs.

    An order that omits ideas is judged on those that it names; an empty list means that the order is readable.
    """
    place = {key: i for i, key in enumerate(order)}
    for key in order:
        find("idea", key, nodes())
    pairs = ((node.key, need) for node in nodes().values() for need in node.needs)
    return [(key, need) for key, need in pairs if key in place and need in place and place[key] < place[need]]
