"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards, drills and the numbers of its prose."""

from course_chapters.ch15.exercises.drills import DRILLS
from course_chapters.ch15.exercises.numbers import NUMBERS
from course_grader.exercises import gather

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
