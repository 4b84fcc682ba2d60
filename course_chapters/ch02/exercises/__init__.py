"""Chapter 02, "Memory: what fills it?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "state-of-a-plan",
    "peak-not-sum",
    "predict-activations",
    "reconcile-ledger",
    "write-checkpointing",
    "count-parameters",
    "first-step-spike",
    "best-segments",
    "chunked-cross-entropy",
    "graphs-kept-alive",
    "audit-memory",
)
