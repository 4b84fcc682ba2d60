"""The sandbox of a submission's worker: it cannot reach the network or read other files, and leaves nothing behind.
Limits: `wall.Wall`."""

from course_grader.sandbox.availability import Availability, availabilities, best_level, sandbox_lines
from course_grader.sandbox.policy import LEVELS, Wall

__all__ = ["LEVELS", "Availability", "Wall", "availabilities", "best_level", "sandbox_lines"]
