"""Texts of the numbers in chapter 19's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping

from course_chapters.ch19.exercises import systems_numbers
from course_chapters.running_example import opening, reading

_SOURCES = ("orca-2022",)

NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("19"),
    **systems_numbers.NUMBERS,
    "reading": lambda: reading(*_SOURCES, *systems_numbers.SOURCES),
}
