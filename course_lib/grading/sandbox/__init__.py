"""The sandbox: what a submission's worker is kept in, so that it reaches and reads nothing, and nothing of it stays."""

from course_lib.grading.sandbox.availability import Availability, availabilities, best_level
from course_lib.grading.sandbox.wall import LEVELS, Wall

__all__ = ["LEVELS", "Availability", "Wall", "availabilities", "best_level"]
