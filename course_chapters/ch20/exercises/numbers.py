"""Texts of the numbers in chapter 20's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping

from course_chapters.ch20.exercises import data_numbers, distant_numbers, health_numbers
from course_chapters.running_example import opening, reading

_PARTS = (data_numbers, health_numbers, distant_numbers)

NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("20"),
    **{name: text for part in _PARTS for name, text in part.NUMBERS.items()},
    "reading": lambda: reading(*(source for part in _PARTS for source in part.SOURCES)),
}
