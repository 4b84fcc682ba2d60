"""Chapter 14's judges, one module an exercise, and the answers to its drills."""

from course_lib.exercises.ch14.judges.drills import DRILLS

__all__ = ["DRILLS"]
