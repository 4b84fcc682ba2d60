"""Chapter 06, "Collectives: how do ranks agree, and at what price?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "pair-exchange",
    "ring-shift",
    "predict-ring-time",
    "reduce-scatter-half",
    "ring-all-reduce",
    "hang-repair",
    "wait-for-cycle",
    "halving-doubling",
    "hierarchical-bytes",
    "all-to-all-sizes",
    "name-the-algorithm",
    "alpha-beta-fit",
    "equal-up-to-rounding",
    "audit-free-scaling",
)
