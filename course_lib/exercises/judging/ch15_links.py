"""Judges of chapter 15: links."""

from course_lib.exercises.judging import Judging

JUDGINGS: dict[str, Judging] = {}
