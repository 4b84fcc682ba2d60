"""What several judges of chapter 04 share."""

from collections.abc import Callable, Mapping
from typing import Any

from course_grader.judging.per_row import Column


def places(
    function: Callable[..., Any], words: Callable[..., str], units: Mapping[str, str], **how: Any
) -> list[Column]:
    """The columns of a function that returns a tuple: what is at each place, and its unit."""
    return [
        Column(part, unit, want=lambda *row, at=at: function(*row)[at], words=words, **how)
        for at, (part, unit) in enumerate(units.items())
    ]
