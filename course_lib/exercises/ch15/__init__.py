"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch15.cards import faults as ch15_faults
from course_lib.exercises.ch15.cards import links as ch15_links
from course_lib.exercises.ch15.cards import steps as ch15_steps
from course_lib.exercises.ch15.cards.drills import DRILLS
from course_lib.exercises.ch15.numbers import NUMBERS

ORDER = (
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
CARDS = tuple(sorted((*ch15_links.CARDS, *ch15_steps.CARDS, *ch15_faults.CARDS), key=lambda card: ORDER.index(card.id)))

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
