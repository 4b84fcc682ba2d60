"""Chapter 07, "Data parallelism: when is a split batch the same batch?": cards in their order."""

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
