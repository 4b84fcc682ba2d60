"""Texts of the numbers in chapter 04's prose, computed from facts, recorded runs and the library's formulas."""

from collections.abc import Callable, Mapping

from course_lib.exercises.running_example import GPUS, core_minutes

NUMBERS: Mapping[str, Callable[[], str]] = {"core_minutes": lambda: core_minutes("04"), "gpus": lambda: f"{GPUS} GPUs"}
