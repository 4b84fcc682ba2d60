"""Chapter 01, "The three walls: why not one GPU?": cards, drills and the numbers of its prose."""

from course_chapters.ch01.exercises.drills import DRILLS
from course_chapters.ch01.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "state-13b",
    "predict-weeks",
    "which-peak",
    "train-days-7b",
    "mfu-waste",
    "first-wall",
    "mfu-bug",
    "years-to-weeks",
    "cost-sensitivity",
    "triage-six",
    "audit-one-step",
    "audit-run-length",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
