"""Texts of the numbers in chapter 18's prose, each computed from published figures and the library's formulas."""

from collections.abc import Callable, Mapping

from course_chapters.running_example import opening, reading

NUMBERS: Mapping[str, Callable[[], str]] = {
    **opening("18"),
    "reading": lambda: reading(
        "korthikanti-2022",
    ),
}
