"""Texts of the numbers in chapter 17's prose, each computed from the planner, the published facts and the library's formulas."""

from collections.abc import Callable, Mapping

from course_lib.exercises.running_example import GPUS, PARAMS, core_minutes, reading_minutes
from course_lib.units import BILLION

NUMBERS: Mapping[str, Callable[[], str]] = {
    "core_minutes": lambda: core_minutes("17"),
    "reading_minutes": lambda: reading_minutes("17"),
    "job": lambda: f"{PARAMS / BILLION:g}B on {GPUS} H100s",
}
