"""Chapter 13, "Meshes and planning: which strategy, on which links?": cards, drills and the numbers of its prose."""

from course_lib.exercises import Card, Drill
from course_lib.exercises.ch13.numbers import NUMBERS

CARDS: tuple[Card, ...] = ()
DRILLS: tuple[Drill, ...] = ()

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
