"""Chapter 09's judges, one module an exercise, and the answers to its drills."""

from course_lib.exercises.ch09.judges.drills import DRILLS

__all__ = ["DRILLS"]
