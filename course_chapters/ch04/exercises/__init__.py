"""Chapter 04, "Optimizer and batch: what must scaling not change?": cards in their order."""

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
