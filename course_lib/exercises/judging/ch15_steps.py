"""Judges of chapter 15: steps."""

from course_lib.exercises.judging import Judging

JUDGINGS: dict[str, Judging] = {}
