"""The judge: what an answer earns, and why."""

from course_lib.grading.judge.decide import grade

__all__ = ["grade"]
