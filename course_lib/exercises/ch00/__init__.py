"""Chapter 00, "Start here": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch00.drills import DRILLS
from course_lib.exercises.ch00.numbers import NUMBERS

CARDS = gather(__name__, "two-ranks-wait", "match-the-cuts", "token-round-the-ring", "open-first")

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
