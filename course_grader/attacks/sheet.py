"""A submission in the making: a chapter's small release with the right answers in it, into which an attack writes."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Literal, TypedDict, Unpack

from course_grader import exercises
from course_grader.blank_notebook import blank
from course_grader.exercises import Card
from course_grader.notebooks import Cell, Notebook, grade_meta, is_answer, parse, render
from course_lib.folders import ROOT

Kind = Literal["forging", "leak", "tampering", "exhaustion", "cluster", "accident"]
KINDS: tuple[Kind, ...] = ("forging", "leak", "tampering", "exhaustion", "cluster", "accident")

IMPORTS = """import math

import ipywidgets
import matplotlib.pyplot as plt

from course_lib import check, params, predict, use
from course_lib.estimate import compute, facts, memory
from course_lib.estimate.units import BILLION, DAY, EFLOP, HOUR, TFLOP, WEEK, YEAR"""
WITH_TORCH = """import torch

from course_lib import check, params, predict
from course_lib.cluster import P2POp"""

WITH_LOSSES = """import torch
from torch.nn import functional as F

from course_lib import check, params, predict"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What attacks are made of: a few exercises of a chapter, the one in the middle attacked, the others answered
    rightly."""

    chapter: str
    imports: str
    exercises: tuple[str, ...]
    target: str


MATERIALS = {
    each.chapter: each
    for each in (
        Material(
            chapter="00",
            imports=WITH_TORCH,
            exercises=("match-the-cuts", "two-ranks-wait", "token-round-the-ring"),
            target="two-ranks-wait",
        ),
        Material(
            chapter="01", imports=IMPORTS, exercises=("state-13b", "train-days-7b", "mfu-waste"), target="train-days-7b"
        ),
        Material(
            chapter="02",
            imports=WITH_LOSSES,
            exercises=("chunked-cross-entropy", "state-of-a-plan"),
            target="chunked-cross-entropy",
        ),
        Material(
            chapter="06",
            imports=WITH_TORCH,
            exercises=("wait-for-cycle", "ring-shift", "pair-exchange"),
            target="ring-shift",
        ),
    )
}


@cache
def whole_source(chapter: str) -> tuple[str, str]:
    """The name and text of a chapter's source in this copy of the course."""
    path = next((ROOT / "solutions").glob(f"{chapter}_*/*.ipynb"))
    return path.stem, path.read_text(encoding="utf-8")


def small_source(chapter: str, only: tuple[str, ...] = ()) -> Notebook:
    """The source of a small form of a chapter: its imports, and of each exercise answer and check."""
    material = MATERIALS[chapter]
    wanted = only or material.exercises
    name, text = whole_source(chapter)
    whole = parse(text)
    cells: list[Cell] = [
        {
            "cell_type": "markdown",
            "id": f"c{chapter}-title",
            "metadata": {},
            "source": f"# {chapter} · {name[3:]}\n\n## Exercises",
        },
        code(material.imports, f"c{chapter}-imports"),
    ]
    for exercise in wanted:
        cells += [
            cell for cell in whole["cells"] if grade_meta(cell).get("grade_id") in (exercise, f"{exercise}-check")
        ]
    return {**whole, "cells": copy.deepcopy(cells)}


def code(source: str, ident: str) -> Cell:
    """A code cell without the course's metadata."""
    return {"cell_type": "code", "id": ident, "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def solved(source: Notebook) -> Notebook:
    """What a learner hands in who knows everything: the release, with the source's answers."""
    answers = {grade_meta(cell)["grade_id"]: cell["source"] for cell in source["cells"] if is_answer(cell)}
    cells = [
        {**cell, "source": answers[grade_meta(cell)["grade_id"]]} if is_answer(cell) else cell
        for cell in blank(source)["cells"]
    ]
    return {**source, "cells": cells}


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link in a submission."""

    to: str


class Sheet:
    """One submission: starts as a whole right one; what an attack replaces is expected to earn nothing, all else to
    count."""

    def __init__(self, chapter: str, about: Mapping[str, object], only: tuple[str, ...] = ()) -> None:
        material = MATERIALS[chapter]
        self.chapter, self.target, self.about = chapter, material.target, about
        self.source = small_source(chapter, only)
        self.notebook = solved(self.source)
        self.files: dict[str, bytes | Link] = {}
        self.data: bytes | None = None  # the notebook's bytes, where it is not to be written from `notebook`
        self.link = ""  # where the notebook is a link: to what
        known = {card.id: card for card in exercises.cards(chapter)}
        self.cards: tuple[Card, ...] = tuple(known[name] for name in only or material.exercises)
        self.points: dict[str, float | None] = {
            card.id: float(card.points) for card in self.cards
        }  # None: not our matter
        self.states: dict[str, tuple[str, ...]] = {}  # exercise -> states that it may be in
        self.said: list[str] = []  # each must stand in a report or a note
        self.refused = ""  # words of a submission that must be refused as a whole; "perhaps": either is well
        self.within: Callable[[str], str] = str  # what a body that is put into a cell becomes part of
        self.ends: tuple[str, ...] = ()  # states that an answer may end in, where it is not told otherwise

    # --- what attacks do

    def answer(
        self, body: str, exercise: str = "", *, states: tuple[str, ...] = (), points: float | None = 0.0
    ) -> None:
        """Put `body` into the answer cell of the target: it defines `attempt`, which then answers under every name
        asked for."""
        name = exercise or self.target
        names = next(card for card in self.cards if card.id == name).answers
        body = self.within(body)
        made = "once(attempt)" if "loot(" in body else "attempt"
        text = (
            f"{dedent(body).strip()}\n\n\n{' = '.join(names)} = {made}\n" if "attempt" in body else dedent(body).strip()
        )
        self.cell(name)["source"] = self.prelude() + text
        self.expect(name, points, *(states or self.ends))

    def expect(self, exercise: str, points: float | None, *states: str) -> None:
        """What an exercise must earn, exactly (None: whatever), and the states that it may end in."""
        self.points[exercise] = points
        if states:
            self.states[exercise] = states

    def own(self, body: str, *, before: str = "", at: int | None = None) -> None:
        """A cell of the learner's own, before the answer of `before` (the target, unless `at` says where)."""
        place = at if at is not None else self.place(before or self.target)
        cell = code(self.prelude() + dedent(self.within(body)).strip(), f"own-{len(self.notebook['cells'])}")
        self.notebook["cells"].insert(place, cell)

    def stub(self, *names: str) -> None:
        """Leave exercises unanswered (the target, unless named)."""
        untouched = blank(self.source)
        for name in names or (self.target,):
            self.cell(name)["source"] = next(cell for cell in untouched["cells"] if _is(cell, name))["source"]
            self.expect(name, 0.0)

    def cell(self, grade_id: str) -> Cell:
        """The first cell with this grade_id."""
        return self.notebook["cells"][self.place(grade_id)]

    def place(self, grade_id: str) -> int:
        """Where that cell stands."""
        return next(at for at, cell in enumerate(self.notebook["cells"]) if _is(cell, grade_id))

    def drop(self, grade_id: str) -> Cell:
        """Take a cell out."""
        return self.notebook["cells"].pop(self.place(grade_id))

    def prelude(self) -> str:
        """What an attacker knows, and how it tells what it read: all but the canaries themselves."""
        return PRELUDE.replace("ABOUT", repr(dict(self.about)))

    # --- what is handed in

    def text(self) -> bytes:
        """The notebook's bytes."""
        return render(self.notebook).encode() if self.data is None else self.data

    def write(self, folder: Path) -> Path:
        """Write the submission into an empty folder; the notebook's path."""
        path = folder / f"{whole_source(self.chapter)[0]}.ipynb"
        for name, what in self.files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, Link):
                place.symlink_to(what.to)
            else:
                place.write_bytes(what)
        if self.link:
            path.symlink_to(self.link)
        else:
            path.write_bytes(self.text())
        return path


def _is(cell: Cell, grade_id: str) -> bool:
    return grade_meta(cell).get("grade_id") == grade_id


PRELUDE = '''AT = ABOUT


def loot(found, whole=False):
    """Tell what was read, by way of the report: every canary in it, or that it could be read at all."""
    import re

    data = found if isinstance(found, bytes) else str(found).encode(errors="replace")
    kept = sorted({each.decode() for each in re.findall(rb"canary-[0-9a-f]{32}", data)})
    if kept or (whole and data):
        raise RuntimeError("LEAK" + "ED " + (" ".join(kept) or data[:200].decode(errors="replace")))
    return 0.0


def seen(path, size=1_000_000):
    with open(path, "rb") as file:
        return file.read(size)


def once(work):
    """`work`, done at the first of many calls."""
    done = []

    def first(*args):
        if not done:
            done.append(1)
            return work(*args)
        return 0.0

    return first


'''


# ------------------------------------------------------------------------------------------------ the list of attacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack or accident: how its submission is made, and what it needs to be tried safely."""

    name: str
    kind: Kind
    words: str
    make: Callable[[Sheet], None]
    chapter: str = "01"
    walled: bool = False  # tried only behind the strongest wall: without one it could harm the machine
    exercises: tuple[str, ...] = ()  # of the chapter, where not those of the material
    brief: bool = False  # waits for a limit on time: tried with short ones
    before: str = ""  # code in front of what it puts into a cell
    within: Callable[[str], str] = str  # what that is then a part of
    states: tuple[str, ...] = ()  # that its answer may end in

    def fill(self, sheet: Sheet) -> None:
        """Make its submission of a whole right one."""
        sheet.within, sheet.ends = lambda body: self.within(self.before + body), self.states
        self.make(sheet)

    def __str__(self) -> str:
        return self.name


ATTACKS: dict[str, Attack] = {}


class Needs(TypedDict, total=False):
    """What an attack says of itself: fields of `Attack`."""

    chapter: str
    walled: bool
    exercises: tuple[str, ...]
    brief: bool
    before: str
    within: Callable[[str], str]
    states: tuple[str, ...]


def attack(kind: Kind, **needs: Unpack[Needs]) -> Callable[[Callable[[Sheet], None]], Callable[[Sheet], None]]:
    """Enter a function that makes a submission into the list; its docstring says what is tried."""

    def enter(make: Callable[[Sheet], None]) -> Callable[[Sheet], None]:
        name = make.__name__.strip("_").replace("_", "-")
        if name in ATTACKS:
            raise ValueError(f"There are two attacks named {name!r}.")
        words = " ".join((make.__doc__ or "").split()).rstrip(".")
        ATTACKS[name] = Attack(name=name, kind=kind, words=words, make=make, **needs)
        return make

    return enter


def as_json(value: object) -> bytes:
    """A value as the bytes of a notebook file."""
    return json.dumps(value).encode()
