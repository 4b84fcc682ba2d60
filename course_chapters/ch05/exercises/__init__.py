"""Chapter 05, "Mixed precision: how few bits are enough?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "lost-update",
    "round-to-format",
    "predict-lost",
    "loss-scaler",
    "mixed-precision-step",
    "stochastic-rounding",
    "decay-that-never-happens",
    "kahan-weights",
    "overflow-everywhere",
    "average-in-fp16",
    "tolerance-design",
    "online-softmax",
    "block-scaled",
    "audit-precision",
)
