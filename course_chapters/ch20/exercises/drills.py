"""One-line questions of chapter 20, with other numbers every time."""

from course_grader.exercises.drilling import asking

_drill = asking("20")

DRILLS = ()
