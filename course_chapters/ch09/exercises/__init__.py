"""Chapter 09, "Tensor parallelism: can one matmul be many?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "column-and-row",
    "predict-tp-time",
    "conjugate-pair",
    "parallel-mlp",
    "parallel-attention",
    "overlap-backward",
    "row-bias",
    "vocab-embedding",
    "vocab-cross-entropy",
    "packed-shards",
    "verify-plan",
    "two-streams",
    "largest-tp",
    "audit-tensor-parallel",
)
