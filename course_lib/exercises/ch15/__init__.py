"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch15.drills import DRILLS
from course_lib.exercises.ch15.numbers import NUMBERS

CARDS = gather(
    __name__,
    "predict-real-step",
    "preflight-verdict",
    "held-out-message",
    "bus-above-line",
    "honest-mfu",
    "shifted-labels",
    "smoke-test",
    "fsdp-peak-gap",
    "pipeline-peaks",
    "exposed-seconds",
    "where-it-goes",
    "read-the-traces",
    "failure-zoo",
    "ring-that-hangs",
    "scaling-fit",
    "spend-ledger",
    "run-report",
    "audit-runs",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
