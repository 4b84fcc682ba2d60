"""Chapter 17, "Trade-off review: can you plan a run and defend it?": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch17.drills import DRILLS
from course_lib.exercises.ch17.numbers import NUMBERS

CARDS = gather(
    __name__,
    "first-remedy",
    "parallelism-table",
    "one-sentence",
    "two-that-fight",
    "pareto-front",
    "predict-slower-wire",
    "plan-rubric",
    "capstone-plan",
    "sturdiest-plan",
    "diagnosis-exam",
    "audit-synthesis",
    "accumulate-in-stages",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
