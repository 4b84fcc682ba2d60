"""Chapter 00, "Start here": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch00.cards.core import CORE, DRILLS
from course_lib.exercises.ch00.numbers import NUMBERS

CARDS = (*CORE,)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
