"""Chapter 20's judges, one module an exercise, and the answers to its drills."""

from course_chapters.ch20.exercises.judges.drills import DRILLS

__all__ = ["DRILLS"]
