"""Chapter 00, "Start here": cards, drills and the numbers of its prose."""

from course_chapters.ch00.exercises.drills import DRILLS
from course_chapters.ch00.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(__name__, "two-ranks-wait", "match-the-cuts", "token-round-the-ring", "open-first")

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
