"""Chapter 14, "Faults and checkpoints: what survives a month of failures?": cards, drills and the numbers of its
prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "hours-between-failures",
    "predict-goodput",
    "checkpoint-interval",
    "atomic-checkpoint",
    "snapshot-and-restore",
    "exactly-once",
    "goodput-ledger",
    "how-many-spares",
    "repair-resume",
    "find-straggler",
    "blame-the-rank",
    "odd-replica",
    "spike-guard",
    "audit-faults",
)
