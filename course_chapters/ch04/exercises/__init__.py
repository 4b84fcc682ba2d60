"""Chapter 04, "Optimizer and batch: what must scaling not change?": cards, drills and the numbers of its prose."""

from course_chapters.ch04.exercises.drills import DRILLS
from course_chapters.ch04.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "batch-in-tokens",
    "write-adamw",
    "clip-pieces",
    "learning-rate",
    "noise-scale",
    "repair-training-loop",
    "predict-first-updates",
    "which-decay",
    "critical-batch",
    "seconds-to-a-loss",
    "pack-documents",
    "fit-scaling-law",
    "audit-optimizer",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
