"""Chapter 15, "Real multi-GPU runs: was the theory right?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch15.cards.drills import DRILLS
from course_lib.exercises.ch15.cards.faults import LABELS, REPORT, RING, SMOKE
from course_lib.exercises.ch15.cards.faults_more import FAILURE_ZOO, READ_THE_TRACES
from course_lib.exercises.ch15.cards.links import HELD_OUT, HONEST_MFU, PREFLIGHT
from course_lib.exercises.ch15.cards.links_audit import AUDIT_RUNS
from course_lib.exercises.ch15.cards.links_more import BUS_ABOVE_LINE, SCALING_FIT
from course_lib.exercises.ch15.cards.steps import EXPOSED_SECONDS, PREDICT_REAL_STEP, WHERE_IT_GOES
from course_lib.exercises.ch15.cards.steps_memory import FSDP_PEAK_GAP, PIPELINE_PEAKS, SPEND_LEDGER
from course_lib.exercises.ch15.numbers import NUMBERS

BEFORE = (PREDICT_REAL_STEP, PREFLIGHT, HELD_OUT, BUS_ABOVE_LINE, HONEST_MFU, LABELS, SMOKE)
DURING = (FSDP_PEAK_GAP, PIPELINE_PEAKS, EXPOSED_SECONDS, WHERE_IT_GOES, READ_THE_TRACES, FAILURE_ZOO, RING)
AFTER = (SCALING_FIT, SPEND_LEDGER, REPORT, AUDIT_RUNS)
CARDS = (*BEFORE, *DURING, *AFTER)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
