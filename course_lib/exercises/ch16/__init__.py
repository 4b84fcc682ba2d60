"""Chapter 16, "Serving: what changes when the model answers?": cards, drills and the numbers of its prose."""

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch16.numbers import NUMBERS

CARDS: tuple[Card, ...] = ()
DRILLS: tuple[Drill, ...] = ()

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
