"""Texts of the numbers in chapter 05's prose, each computed from the formats, the facts and the recorded trainings."""

from collections.abc import Callable, Mapping

from course_lib.exercises.running_example import GPUS, PARAMS, core_minutes
from course_lib.precision import number_format
from course_lib.units import BILLION, number_text

BF16, FP16 = number_format("bf16"), number_format("fp16")

NUMBERS: Mapping[str, Callable[[], str]] = {
    "core_minutes": lambda: core_minutes("05"),
    "job": lambda: f"{PARAMS / BILLION:g}B on {GPUS} H100s",
    "fp16_max": lambda: f"{FP16.max:,.0f}",
    "bf16_eps": lambda: number_text(BF16.eps),
}
