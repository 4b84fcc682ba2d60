"""Chapter 01, "The three walls: why not one GPU?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch01_audits import AUDITS
from course_lib.exercises.ch01_core import BEFORE_WALLS
from course_lib.exercises.ch01_drills import DRILLS
from course_lib.exercises.ch01_more import PROBLEMS
from course_lib.exercises.ch01_walls import FIRST_WALL
from course_lib.exercises.numbers.ch01 import NUMBERS

CARDS = (*BEFORE_WALLS, FIRST_WALL, *AUDITS, *PROBLEMS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
