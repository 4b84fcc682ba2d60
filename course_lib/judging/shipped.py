"""What the judge of an exercise ships beside it: its right and wrong answers, as its file writes them."""

import importlib
from collections.abc import Sequence
from functools import cache
from types import ModuleType

from course_lib import exercises
from course_lib.exercises import overlay
from course_lib.exercises.answer_bank import BankAnswer, read_bank


def answers_text(exercise: str) -> str:
    """The shipped answers to an exercise as its judge's file writes them."""
    return overlay.answers(exercise) if exercise in overlay.cards() else judge_module(exercise).ANSWERS


def answers(exercise: str) -> Sequence[BankAnswer]:
    """The shipped answers to an exercise; none where its judge ships none, or where it belongs to no chapter."""
    try:
        text = answers_text(exercise)
    except ValueError:
        return ()
    return _read(exercise, text)


@cache
def _read(exercise: str, text: str) -> Sequence[BankAnswer]:
    return tuple(read_bank(text, exercise, f"{exercise}: ANSWERS"))


def judge_module(exercise: str) -> ModuleType:
    """The module of a judge of the course."""
    chapter = exercises.card(exercise).chapter
    return importlib.import_module(f"course_lib.exercises.ch{chapter}.judges.{exercises.module_of(exercise)}")
