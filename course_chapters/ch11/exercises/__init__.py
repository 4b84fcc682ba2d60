"""Chapter 11, "Sequence and context parallelism: can several ranks share one sequence?": cards, drills and the numbers
of its prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "activation-shares",
    "merge-partial-attention",
    "ring-attention",
    "predict-causal-balance",
    "zig-zag-positions",
    "ulysses-exchange",
    "norm-gradients",
    "ring-backward",
    "shifted-targets",
    "split-packed-documents",
    "window-halo",
    "hide-the-ring",
    "mean-over-the-mesh",
    "audit-context",
)
