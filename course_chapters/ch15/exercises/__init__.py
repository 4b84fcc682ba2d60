"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "predict-real-step",
    "held-out-message",
    "honest-mfu",
    "exposed-seconds",
    "run-report",
    "preflight-verdict",
    "bus-above-line",
    "shifted-labels",
    "smoke-test",
    "fsdp-peak-gap",
    "pipeline-peaks",
    "read-the-traces",
    "where-it-goes",
    "failure-zoo",
    "ring-that-hangs",
    "scaling-fit",
    "spend-ledger",
    "audit-runs",
)
