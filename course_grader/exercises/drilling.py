"""What the chapters' drills share: how their numbers are drawn, and the chapter they belong to."""

from collections.abc import Callable, Mapping
from typing import Any

from course_grader.exercises import Drill, Vary


def pick(**choices: tuple[Any, ...]) -> Vary:
    """A variant that draws each parameter from its choices."""
    return lambda draw: {name: draw.choice(values) for name, values in choices.items()}


def of_chapter(chapter: str) -> Callable[[str, str, str, Mapping[str, Any], Vary], Drill]:
    """A maker of this chapter's drills, from id, text, unit, canonical parameters and how others are drawn."""

    def drill(name: str, text: str, unit: str, params: Mapping[str, Any], vary: Vary) -> Drill:
        return Drill(id=name, chapter=chapter, text=text, unit=unit, params=params, vary=vary)

    return drill


def asking(chapter: str) -> Callable[[str, str, Mapping[str, Any], Vary], Callable[[str], Drill]]:
    """The same in two steps: first id, unit, canonical parameters and how others are drawn, then the text."""

    def numbers(name: str, unit: str, params: Mapping[str, Any], vary: Vary) -> Callable[[str], Drill]:
        return lambda text: Drill(id=name, chapter=chapter, text=text, unit=unit, params=params, vary=vary)

    return numbers
