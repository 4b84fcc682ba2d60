"""One-line questions of chapter 15, with other numbers every time."""

from course_lib.exercises import Drill

DRILLS: tuple[Drill, ...] = ()
