"""Chapter 17, "Trade-off review: can you plan a run and defend it?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "first-remedy",
    "parallelism-table",
    "one-sentence",
    "plan-rubric",
    "capstone-plan",
    "two-that-fight",
    "accumulate-in-stages",
    "pareto-front",
    "predict-slower-wire",
    "sturdiest-plan",
    "diagnosis-exam",
    "audit-synthesis",
)
