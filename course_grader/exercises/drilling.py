"""What the chapters' drills share: how their numbers are drawn, and the chapter they belong to."""

from collections.abc import Callable, Mapping
from typing import Any

from course_grader.exercises import Drill, Vary


def pick(**choices: tuple[object, ...]) -> Vary:
    """A variant that draws each parameter from its choices."""
    return lambda draw: {name: draw.choice(values) for name, values in choices.items()}


def asking(chapter: str) -> Callable[..., Callable[[str], Drill]]:
    """A maker of this chapter's drills, in two steps: first id, unit, canonical parameters and how others are drawn,
    then the text.

    In place of the last two of these, each parameter may have its choices, the canonical one first.
    """

    def numbers(
        name: str, unit: str, params: Mapping[str, object] | None = None, vary: Vary | None = None, /, **choices: Any
    ) -> Callable[[str], Drill]:
        params, vary = params or {key: values[0] for key, values in choices.items()}, vary or pick(**choices)
        return lambda text: Drill(id=name, chapter=chapter, text=text, unit=unit, params=params, vary=vary)

    return numbers
