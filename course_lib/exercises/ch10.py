"""Chapter 10, "Pipeline parallelism: can layers live apart?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch10_audits import AUDITS
from course_lib.exercises.ch10_core import CORE
from course_lib.exercises.ch10_drills import DRILLS
from course_lib.exercises.ch10_more import PROBLEMS
from course_lib.exercises.ch10_stages import DEADLOCKED_1F1B, RUN_ANY_SCHEDULE
from course_lib.exercises.numbers.ch10 import NUMBERS

CARDS = (*CORE, DEADLOCKED_1F1B, RUN_ANY_SCHEDULE, *PROBLEMS, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
