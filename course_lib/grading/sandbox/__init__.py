"""The sandbox of a submission's worker: it cannot reach the network or read other files, and leaves nothing behind. Limits: `wall.Wall`."""

from course_lib.grading.sandbox.availability import Availability, availabilities, best_level, sandbox_lines
from course_lib.grading.sandbox.wall import LEVELS, Wall

__all__ = ["LEVELS", "Availability", "Wall", "availabilities", "best_level", "sandbox_lines"]
