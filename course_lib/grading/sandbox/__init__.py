"""The sandbox: what a submission's worker is kept in, so that it reaches and reads nothing, and nothing of it stays."""

from course_lib.grading.sandbox.availability import Look, best, looks
from course_lib.grading.sandbox.wall import LEVELS, Wall

__all__ = ["LEVELS", "Look", "Wall", "best", "looks"]
