"""Chapter 01, "The three walls: why not one GPU?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "state-13b",
    "predict-weeks",
    "which-peak",
    "train-days-7b",
    "mfu-waste",
    "first-wall",
    "mfu-bug",
    "years-to-weeks",
    "cost-sensitivity",
    "triage-six",
    "audit-one-step",
    "audit-run-length",
)
