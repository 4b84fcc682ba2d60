"""Chapter 04, "Optimizer and batch: what must scaling not change?": cards, drills and the numbers of its prose."""

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch04.numbers import NUMBERS

CARDS: tuple[Card, ...] = ()
DRILLS: tuple[Drill, ...] = ()

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
