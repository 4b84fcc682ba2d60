"""Chapter 06, "Collectives: how do ranks agree, and at what price?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch06.cards.audits import AUDITS
from course_lib.exercises.ch06.cards.core import CORE
from course_lib.exercises.ch06.cards.drills import DRILLS
from course_lib.exercises.ch06.cards.hangs import HANGS
from course_lib.exercises.ch06.cards.more import PROBLEMS
from course_lib.exercises.ch06.numbers import NUMBERS

CARDS = (*CORE, *HANGS, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
