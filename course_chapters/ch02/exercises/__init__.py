"""Chapter 02, "Memory: what fills it?": cards, drills and the numbers of its prose."""

from course_chapters.ch02.exercises.drills import DRILLS
from course_chapters.ch02.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "state-of-a-plan",
    "peak-not-sum",
    "predict-activations",
    "reconcile-ledger",
    "write-checkpointing",
    "count-parameters",
    "first-step-spike",
    "best-segments",
    "chunked-cross-entropy",
    "graphs-kept-alive",
    "audit-memory",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
