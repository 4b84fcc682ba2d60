"""Chapter 06, "Collectives: how do ranks agree, and at what price?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch06_audits import AUDITS
from course_lib.exercises.ch06_core import CORE
from course_lib.exercises.ch06_drills import DRILLS
from course_lib.exercises.ch06_hangs import HANGS
from course_lib.exercises.ch06_more import PROBLEMS
from course_lib.exercises.numbers.ch06 import NUMBERS

CARDS = (*CORE, *HANGS, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
