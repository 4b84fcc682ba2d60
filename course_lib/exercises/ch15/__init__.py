"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch15.cards.audits import AUDIT_RUNS
from course_lib.exercises.ch15.cards.drills import DRILLS
from course_lib.exercises.ch15.cards.faults import FAILURE_ZOO, LABELS, READ_THE_TRACES, REPORT, RING, SMOKE
from course_lib.exercises.ch15.cards.links import BUS_ABOVE_LINE, HELD_OUT, HONEST_MFU, PREFLIGHT, SCALING_FIT
from course_lib.exercises.ch15.cards.steps import (
    EXPOSED_SECONDS,
    FSDP_PEAK_GAP,
    PIPELINE_PEAKS,
    PREDICT_REAL_STEP,
    SPEND_LEDGER,
    WHERE_IT_GOES,
)
from course_lib.exercises.ch15.numbers import NUMBERS

BEFORE = (PREDICT_REAL_STEP, PREFLIGHT, HELD_OUT, BUS_ABOVE_LINE, HONEST_MFU, LABELS, SMOKE)
DURING = (FSDP_PEAK_GAP, PIPELINE_PEAKS, EXPOSED_SECONDS, WHERE_IT_GOES, READ_THE_TRACES, FAILURE_ZOO, RING)
AFTER = (SCALING_FIT, SPEND_LEDGER, REPORT, AUDIT_RUNS)
CARDS = (*BEFORE, *DURING, *AFTER)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
