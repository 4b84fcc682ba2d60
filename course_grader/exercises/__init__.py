"""Exercises as data: what a learner is asked, and how their code is called. Judging lives apart, in `judging`.

A chapter's package `chNN` has a module for each exercise with its `CARD`; `chNN/judges` has one of the same name with
its judge. The package holds `CARDS` (a tuple of `Card`, in the order of the chapter), its module `drills` has `DRILLS`
(a tuple of `Drill`) and `numbers` has `NUMBERS` (name -> function that gives the text of a number quoted in the
chapter's prose).
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType, ModuleType
from typing import Any, Literal, TypedDict

from course_grader.exercises import class_exercises
from course_grader.exercises.placeholders import fill_text
from course_grader.exercises.probes import PREDICTION, rows, unless_open, watched
from course_grader.exercises.result_schema import (
    Anything,
    DictOf,
    ListOf,
    Maybe,
    Number,
    PerRank,
    Rows,
    Shape,
    Tensor,
    TupleOf,
    Word,
)
from course_grader.records import Case
from course_lib.messages import count_text

__all__ = [
    "COURSE",
    "HELPERS",
    "PREDICTION",
    "VARIANT_FILE",
    "Anything",
    "Card",
    "DictOf",
    "Drill",
    "Form",
    "Kind",
    "ListOf",
    "Maybe",
    "Number",
    "Params",
    "PerRank",
    "Random",
    "Rows",
    "Tensor",
    "TupleOf",
    "Vary",
    "Word",
    "Worth",
    "asking",
    "call",
    "card",
    "cards",
    "chapter_module",
    "chapters",
    "drills",
    "gather",
    "home",
    "module_of",
    "numbers",
    "package_of",
    "pick",
    "rows",
    "unless_open",
    "watched",
]

Kind = Literal["core", "more"]
Form = Literal["code", "audit", "prediction", "bug"]
Params = Mapping[str, Any]  # of a variant, by name
Vary = Callable[[Random], Params]
VARIANT_FILE = "variant.json"  # beside a notebook: its owner's `Variant`
COURSE = os.environ.get("COURSE_PACKAGE", "course_chapters")  # the package of the chapters
HELPERS = ("block", "disk", "drills", "judges", "models", "numbers", "probes", "shared", "trainings", "work")


def call(answer: Callable[..., object], case: Case, comm: object = None) -> object:
    """The default probe: the answer called on the case's arguments, its communicator first where there is one."""
    given = (comm, *case.args) if comm is not None else case.args
    return answer(*given, **case.kwargs)


def _each_function(entry: str) -> list[str]:
    """ "module:function" of each function in an entry of `hides`."""
    module, _, names = entry.partition(":")
    return [f"{module}:{name}" for name in names.split(", ")]


class Variant(TypedDict, total=False):
    """The numbers of one learner's exercises."""

    id: str
    exercises: Mapping[str, Params]


class Worth(TypedDict):
    """What a card earns and what it takes, in one line of the card:
    `**Worth(points=4, minutes=5, difficulty=2, importance=5)`."""

    points: int
    minutes: int
    difficulty: int
    importance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the learner is told of one exercise; `text` is Markdown with `{{param:format}}` placeholders.

    A chapter's cards leave out `id` and `chapter`: `gather` enters them.
    """

    id: str = ""
    chapter: str = ""  # "01"
    title: str
    text: str
    points: float  # whole, but for the share that a class may give
    minutes: int
    difficulty: int  # 1 to 5
    importance: int  # 1 to 5
    hints: tuple[str, str, str]  # a question, a sketch, near-code
    answers: tuple[str, ...]  # names that the answer cell defines, in the order `check` takes them
    kind: Kind = "core"
    form: Form = "code"
    allowed: str = ""  # in words, shown with the text
    hides: tuple[str, ...] = ()  # "module:function, function" of course_lib that are switched off during a check
    params: Params = field(default_factory=dict)  # the canonical variant
    vary: Vary | None = None  # other variants of equal difficulty
    structural: str = ""  # name of the parameter that changes the structure of the task, if one does
    needs: tuple[str, ...] = ()  # chapters, besides its own
    probe: Callable[..., object] = call  # by default `rows` where `returns` is Rows(…)
    returns: Shape | None = None  # what comes back for a case, checked before the judge
    may_change: tuple[str, ...] = ()  # what an answer may change although its caller sees it: "arguments", "generators"

    def __post_init__(self) -> None:
        for name in ("difficulty", "importance"):
            if not 1 <= getattr(self, name) <= 5:
                raise ValueError(f"Card {self.id!r}: {name} is {getattr(self, name)}; it must be 1 to 5.")
        if late := [chapter for chapter in self.needs if "" < self.chapter < chapter]:
            raise ValueError(f"Card {self.id!r} of chapter {self.chapter} needs the later {late}; move the exercise.")
        if self.structural and self.structural not in self.params:
            raise ValueError(f"Card {self.id!r}: structural parameter {self.structural!r} is not in its params.")
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "hides", tuple(name for entry in self.hides for name in _each_function(entry)))
        if self.probe is call and isinstance(self.returns, Rows):
            object.__setattr__(self, "probe", rows)

    def variant(self, seed: str | None = None) -> Params:
        """The parameters for a seed; the canonical ones without a seed or where the card does not vary."""
        if seed is None or self.vary is None:
            return self.params
        drawn = self.vary(Random(f"{self.id}:{seed}"))
        return MappingProxyType({**self.params, **drawn})

    def statement(self, params: Mapping[str, object] | None = None) -> str:
        """The task in Markdown with the variant's numbers in place."""
        values = self.params if params is None else params
        text = fill_text(self.text, values)
        return f"{text}\n\n*Allowed:* {self.allowed}" if self.allowed else text

    def heading(self) -> str:
        """Title, minutes, difficulty, importance and points as one Markdown heading with its line."""
        dots = {n: "●" * n + "○" * (5 - n) for n in range(1, 6)}
        worth = f"**{count_text(self.points, 'point')}**" if self.points else "practice, no points"
        extra = "" if self.kind == "core" else " (more)"
        return (
            f"### Exercise{extra}: {self.title}\n\n"
            f"**{self.minutes} min** · difficulty {dots[self.difficulty]} · importance {dots[self.importance]}"
            f" · {worth}"
        )

    def markdown(self, params: Mapping[str, object] | None = None) -> str:
        """Heading and statement: the cell before the answer cell. The statement of a `more` exercise is folded."""
        statement = self.statement(params)
        if self.kind == "more":
            statement = f"<details><summary>What to write</summary>\n\n{statement}\n\n</details>"
        return f"{self.heading()}\n\n{statement}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A one-line question with a number for an answer, for `course drill`."""

    id: str
    chapter: str
    text: str  # with `{{param:format}}` placeholders
    unit: str
    params: Params
    vary: Vary

    def variant(self, seed: str) -> "Drill":
        """The same question with other numbers."""
        drawn = self.vary(Random(f"{self.id}:{seed}"))
        return Drill(
            id=self.id,
            chapter=self.chapter,
            text=self.text,
            unit=self.unit,
            params={**self.params, **drawn},
            vary=self.vary,
        )

    def question(self) -> str:
        """The question with its numbers in place, as plain text: a terminal shows a dollar sign as it is."""
        return fill_text(self.text, self.params).replace("\\$", "$")


def pick(**choices: tuple[object, ...]) -> Vary:
    """A variant that draws each parameter from its choices."""
    return lambda draw: {name: draw.choice(values) for name, values in choices.items()}


def asking(chapter: str) -> Callable[..., Callable[[str], Drill]]:
    """A maker of this chapter's drills, in two steps: first id, unit, canonical parameters and how others are drawn,
    then the text.

    In place of the last two of these, each parameter may have its choices, the canonical one first.
    """

    def numbers(
        name: str, unit: str, params: Params | None = None, vary: Vary | None = None, /, **choices: tuple[object, ...]
    ) -> Callable[[str], Drill]:
        params, vary = params or {key: values[0] for key, values in choices.items()}, vary or pick(**choices)
        return lambda text: Drill(id=name, chapter=chapter, text=text, unit=unit, params=params, vary=vary)

    return numbers


def module_of(exercise: str) -> str:
    """The name of the modules of an exercise's card and judge: `ring_shift`; not one that a chapter's helpers have, and
    no number first."""
    name = exercise.replace("-", "_")
    return f"exercise_{name}" if name in HELPERS or name[0].isdigit() else name


def gather(package: str, *names: str) -> tuple[Card, ...]:
    """The cards of a chapter's exercises by their ids, each from its module."""
    chapter = package.split(".")[-2].removeprefix("ch")
    modules = {name: importlib.import_module(f"{package}.{module_of(name)}") for name in names}
    return tuple(replace(module.CARD, id=name, chapter=chapter) for name, module in modules.items())


@cache
def home() -> Path:
    """The folder of the course's chapters."""
    spec = importlib.util.find_spec(COURSE)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"There is no package {COURSE!r} with chapters; COURSE_PACKAGE names another.")
    return Path(spec.submodule_search_locations[0])


def package_of(chapter: str) -> str:
    """The package of a chapter's cards; its judges are in the package `judges` below it."""
    return f"{COURSE}.ch{chapter}.exercises"


@cache
def chapters() -> tuple[str, ...]:
    """The chapters that have exercises, in order: ("00", "01", ...)."""
    return tuple(sorted(path.parts[-3][2:] for path in home().glob("ch[0-9][0-9]/exercises/__init__.py")))


def chapter_module(chapter: str) -> ModuleType:
    """The module of a chapter's cards; ValueError names the chapters that exist."""
    if chapter not in chapters():
        raise ValueError(f"There is no chapter {chapter!r} with exercises; there are {', '.join(chapters())}.")
    return importlib.import_module(package_of(chapter))


def cards(chapter: str | None = None) -> tuple[Card, ...]:
    """The cards of one chapter, or of all, in the order of the chapter; a class's own stand at its end."""
    wanted = chapters() if chapter is None else (chapter,)
    own = class_exercises.cards().values()
    return tuple(
        card
        for name in wanted
        for card in (*chapter_module(name).CARDS, *(card for card in own if card.chapter == name))
    )


def card(exercise: str) -> Card:
    """The card with this id; ValueError names the nearest ids."""
    found = class_exercises.cards().get(exercise) or _own(exercise)
    if found is None:
        known = {each.id: each for each in cards()}
        near = get_close_matches(str(exercise), known, n=3, cutoff=0.4) or sorted(known)
        raise ValueError(f"There is no exercise {exercise!r}; did you mean {', '.join(near)}?")
    return found


@cache
def _own(exercise: str) -> Card | None:
    """The course's own card with this id. Chapters that are loaded come first: a process that has one need not load
    all."""
    names = sorted(chapters(), key=lambda name: f"{__name__}.ch{name}" not in sys.modules)
    return next((each for name in names for each in chapter_module(name).CARDS if each.id == exercise), None)


def drills(chapter: str) -> tuple[Drill, ...]:
    """The drill questions of one chapter."""
    found: tuple[Drill, ...] = importlib.import_module(f"{chapter_module(chapter).__name__}.drills").DRILLS
    return found


def numbers(chapter: str) -> Mapping[str, Callable[[], str]]:
    """The numbers that a chapter's prose quotes: functions that give their texts, by name."""
    found: Mapping[str, Callable[[], str]] = importlib.import_module(
        f"{chapter_module(chapter).__name__}.numbers"
    ).NUMBERS
    return found
