"""Answers to chapter 15's drills."""

from collections.abc import Mapping

from course_lib.exercises.judging import DrillKey

DRILLS: Mapping[str, DrillKey] = {}
