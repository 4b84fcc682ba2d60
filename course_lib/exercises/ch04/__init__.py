"""Chapter 04, "Optimizer and batch: what must scaling not change?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch04.cards.audits import AUDITS
from course_lib.exercises.ch04.cards.core import CORE
from course_lib.exercises.ch04.cards.drills import DRILLS
from course_lib.exercises.ch04.cards.training import PREDICT_FIRST_UPDATES, REPAIR_TRAINING_LOOP
from course_lib.exercises.ch04.numbers import NUMBERS

CARDS = (*CORE, PREDICT_FIRST_UPDATES, REPAIR_TRAINING_LOOP, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
