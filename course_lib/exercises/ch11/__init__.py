"""Chapter 11, "Sequence and context parallelism: can several ranks share one sequence?": cards, drills and the numbers of its prose."""

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch11.numbers import NUMBERS

CARDS: tuple[Card, ...] = ()
DRILLS: tuple[Drill, ...] = ()

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
