"""Chapter 10, "Pipeline parallelism: can layers live apart?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch10.cards.audits import AUDITS
from course_lib.exercises.ch10.cards.core import CORE
from course_lib.exercises.ch10.cards.drills import DRILLS
from course_lib.exercises.ch10.cards.more import PROBLEMS
from course_lib.exercises.ch10.cards.stages import DEADLOCKED_1F1B, RUN_ANY_SCHEDULE
from course_lib.exercises.ch10.numbers import NUMBERS

CARDS = (*CORE, DEADLOCKED_1F1B, RUN_ANY_SCHEDULE, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
