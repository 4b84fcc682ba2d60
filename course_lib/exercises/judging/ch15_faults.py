"""Judges of chapter 15: faults."""

from course_lib.exercises.judging import Judging

JUDGINGS: dict[str, Judging] = {}
