"""Chapter 19, "Post-training: what changes when the model writes its own data?": cards, drills and the numbers of its
prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "count-targets",
    "group-advantages",
    "sync-weights",
    "bounded-staleness",
    "predict-tail-idle",
    "partial-rollouts",
    "lora-shards",
    "off-policy",
    "repair-stale-cache",
    "repair-log-probs",
    "models-on-gpus",
    "audit-post-training",
)
