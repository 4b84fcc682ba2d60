"""Chapter 07, "Data parallelism: when is a split batch the same batch?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch07_audits import AUDITS
from course_lib.exercises.ch07_core import CORE
from course_lib.exercises.ch07_drills import DRILLS
from course_lib.exercises.ch07_more import PROBLEMS
from course_lib.exercises.numbers.ch07 import NUMBERS

CARDS = (*CORE, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
