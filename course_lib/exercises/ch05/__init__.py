"""Chapter 05, "Mixed precision: how few bits are enough?": cards, drills and the numbers of its prose."""

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch05.numbers import NUMBERS

CARDS: tuple[Card, ...] = ()
DRILLS: tuple[Drill, ...] = ()

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
