"""Exercises of a class's own beside the course's: `NAME/card.py` holds CARD, `NAME/judging.py` JUDGING and ANSWERS.

`use` sets the folder; a new process takes it from COURSE_OVERLAY. A worker reads only the cards: `judging.py` is loaded
under the name of the judging package, which a worker cannot import.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_grader.exercises import Card


VARIABLE = "COURSE_OVERLAY"


@dataclass
class _Own:
    """What is in use."""

    folder: Path | None = None
    cards: dict[str, "Card"] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)  # exercise -> its folder
    loaded: bool = False


_own = _Own()


def use(folder: Path | None) -> None:
    """Use the exercises of this folder from now on, in this process and in those that it starts; None: the course's
    alone."""
    _own.folder, _own.loaded = folder, True
    _own.cards, _own.places = {}, {}
    os.environ.pop(VARIABLE, None)
    if folder is not None:
        os.environ[VARIABLE] = str(folder)
        _load(folder)


def cards() -> Mapping[str, "Card"]:
    """The cards in use, by id; ValueError names a file that holds none, or an id that the course has."""
    if not _own.loaded:
        use(Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    return _own.cards


def place(exercise: str) -> Path:
    """The folder of one of these exercises."""
    return _own.places[exercise]


def judging(exercise: str) -> Any:
    """The judge of one of these exercises."""
    path = _own.places[exercise] / "judging.py"
    return _held(path, f"course_grader.judging.overlay_{path.parent.name}", "JUDGING")


def answers(exercise: str) -> str:
    """The answers that the judge's file of one of these exercises ships."""
    path = _own.places[exercise] / "judging.py"
    return str(_held(path, f"course_grader.judging.overlay_{path.parent.name}", "ANSWERS"))


def _load(folder: Path) -> None:
    from course_grader import exercises

    known = {card.id for chapter in exercises.chapters() for card in exercises.chapter_module(chapter).CARDS}
    for path in sorted(folder.glob("*/card.py")):
        card = _held(path, f"course_grader.exercises.overlay_{path.parent.name}", "CARD")
        if card.chapter not in exercises.chapters():
            raise ValueError(
                f"{path}: there is no chapter {card.chapter!r}; there are {', '.join(exercises.chapters())}."
            )
        if card.id in known or card.id in _own.cards:
            raise ValueError(f"{path}: there is an exercise {card.id!r} already; give this one another id.")
        _own.cards[card.id], _own.places[card.id] = card, path.parent


def _held(path: Path, name: str, what: str) -> Any:
    """What a file holds under a name; the file is read once, and again where it has changed."""
    if not path.is_file():
        raise ValueError(f"There is no {path}.")
    stamp = (str(path), path.stat().st_mtime_ns, path.stat().st_size)
    module = sys.modules.get(name)
    if module is None or getattr(module, "__stamp__", None) != stamp:
        module = _loaded(path, name, stamp)
    if not hasattr(module, what):
        raise ValueError(f"{path} does not define {what}.")
    return getattr(module, what)


def _loaded(path: Path, name: str, stamp: tuple[str, int, int]) -> ModuleType:
    """The file as a module; no compiled copy of it is kept, so that what was just saved is what runs."""
    module = ModuleType(name)
    module.__dict__.update({"__file__": str(path), "__stamp__": stamp})
    sys.modules[name] = module
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module
