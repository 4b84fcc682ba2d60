"""Chapter 07, "Data parallelism: when is a split batch the same batch?": cards, drills and the numbers of its prose."""

from course_chapters.ch07.exercises.drills import DRILLS
from course_chapters.ch07.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "average-gradients",
    "predict-exposed",
    "token-mean",
    "ddp-hooks",
    "one-sync",
    "sampler",
    "ddp-buckets",
    "uneven-inputs",
    "mean-metrics",
    "break-even",
    "audit-data-parallel",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
