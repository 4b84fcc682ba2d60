"""The numbers in chapter 13's prose, as text: computed from facts, meshes and the planner."""

from collections.abc import Callable, Mapping

from course_lib.exercises.running_example import GPUS, PARAMS, core_minutes, reading_minutes
from course_lib.units import BILLION

NUMBERS: Mapping[str, Callable[[], str]] = {
    "core_minutes": lambda: core_minutes("13"),
    "reading_minutes": lambda: reading_minutes("13"),
    "job": lambda: f"{PARAMS / BILLION:g}B on {GPUS} H100s",
}
