"""Chapter 07, "Data parallelism: when is a split batch the same batch?": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch07.drills import DRILLS
from course_lib.exercises.ch07.numbers import NUMBERS

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
