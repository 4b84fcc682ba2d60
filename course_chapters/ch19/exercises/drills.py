"""One-line questions of chapter 19, with other numbers every time."""

from course_grader.exercises.drilling import of_chapter

_drill = of_chapter("19")

DRILLS = ()
