"""Chapter 08, "Sharded data parallel: who needs to hold what, when?": cards, drills and the numbers of its prose."""

from course_chapters.ch08.exercises.drills import DRILLS
from course_chapters.ch08.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "zero-state",
    "predict-all-shards",
    "own-and-tell",
    "fsdp-by-hand",
    "clip-shards",
    "loss-stands-still",
    "more-gpus-same-memory",
    "hsdp-group",
    "prefetch-depth",
    "reshard-checkpoint",
    "offload-boundary",
    "largest-alone",
    "audit-sharding",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
