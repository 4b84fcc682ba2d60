"""What the judge of an exercise ships beside it: its right and wrong answers, as its file writes them."""

import importlib
from collections.abc import Sequence
from functools import cache
from types import ModuleType

from course_grader import exercises
from course_grader.bank.answer_bank import BankAnswer, read_bank
from course_grader.exercises import class_exercises


def answers_text(exercise: str) -> str:
    """The shipped answers to an exercise as its judge's file writes them."""
    return class_exercises.answers(exercise) if exercise in class_exercises.cards() else judge_module(exercise).ANSWERS


def imports_text(exercise: str) -> str:
    """What the answers to an exercise import without saying so: `IMPORTS` of its chapter's judges; none in a class's
    own."""
    if exercise in class_exercises.cards():
        return ""
    return _imports_of(exercises.card(exercise).chapter)


@cache
def _imports_of(chapter: str) -> str:
    return str(getattr(importlib.import_module(f"{exercises.package_of(chapter)}.judges"), "IMPORTS", ""))


def answers(exercise: str) -> Sequence[BankAnswer]:
    """The shipped answers to an exercise; none where its judge ships none, or where it belongs to no chapter."""
    try:
        text, imports = answers_text(exercise), imports_text(exercise)
    except ValueError:
        return ()
    return _read(exercise, text, imports)


@cache
def _read(exercise: str, text: str, imports: str) -> Sequence[BankAnswer]:
    return tuple(read_bank(text, exercise, f"{exercise}: ANSWERS", imports=imports))


@cache
def judge_module(exercise: str) -> ModuleType:
    """The module of a judge of the course."""
    chapter = exercises.card(exercise).chapter
    return importlib.import_module(f"{exercises.package_of(chapter)}.judges.{exercises.module_of(exercise)}")
