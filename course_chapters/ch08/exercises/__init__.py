"""Chapter 08, "Sharded data parallel: who needs to hold what, when?": cards, drills and the numbers of its prose."""

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
