"""Chapter 12, "Expert parallelism: what if each token needs only some of the weights?": cards, drills and the numbers
of its prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "active-parameters",
    "route-tokens",
    "group-by-expert",
    "capacity",
    "expert-parallel",
    "predict-drops",
    "expert-gradient-scale",
    "expert-norm",
    "balance-loss",
    "bias-balance",
    "node-limited",
    "audit-moe",
)
