"""Chapter 07, "Data parallelism: when is a split batch the same batch?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch07.cards.audits import AUDITS
from course_lib.exercises.ch07.cards.core import CORE
from course_lib.exercises.ch07.cards.drills import DRILLS
from course_lib.exercises.ch07.cards.more import PROBLEMS
from course_lib.exercises.ch07.numbers import NUMBERS

CARDS = (*CORE, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
