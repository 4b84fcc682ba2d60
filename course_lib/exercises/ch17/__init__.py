"""Chapter 17, "Trade-off review: can you plan a run and defend it?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch17.cards.audits import AUDIT_SYNTHESIS
from course_lib.exercises.ch17.cards.brief import FIRST_REMEDY, ONE_SENTENCE, PARALLELISM_TABLE
from course_lib.exercises.ch17.cards.capstone import CAPSTONE_PLAN, PLAN_RUBRIC, PREDICT_SLOWER_WIRE, STURDIEST_PLAN
from course_lib.exercises.ch17.cards.drills import DRILLS
from course_lib.exercises.ch17.cards.exam import ACCUMULATE_IN_STAGES, DIAGNOSIS_EXAM
from course_lib.exercises.ch17.cards.tradeoffs import PARETO_FRONT, TWO_THAT_FIGHT
from course_lib.exercises.ch17.numbers import NUMBERS

CARDS = (
    FIRST_REMEDY,
    PARALLELISM_TABLE,
    ONE_SENTENCE,
    TWO_THAT_FIGHT,
    PARETO_FRONT,
    PREDICT_SLOWER_WIRE,
    PLAN_RUBRIC,
    CAPSTONE_PLAN,
    STURDIEST_PLAN,
    DIAGNOSIS_EXAM,
    AUDIT_SYNTHESIS,
    ACCUMULATE_IN_STAGES,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
