"""Judges of chapter 01, by exercise id, and the keys of its drills."""

from course_lib.exercises.ch01.judges.audits import AUDIT_ONE_STEP, AUDIT_RUN_LENGTH
from course_lib.exercises.ch01.judges.core import PREDICT_WEEKS, STATE_13B, TRAIN_DAYS
from course_lib.exercises.ch01.judges.drills import DRILLS
from course_lib.exercises.ch01.judges.money import COST_SENSITIVITY, MFU_WASTE
from course_lib.exercises.ch01.judges.peak import MFU_BUG, WHICH_PEAK
from course_lib.exercises.ch01.judges.scaling import YEARS_TO_WEEKS
from course_lib.exercises.ch01.judges.triage import TRIAGE_SIX
from course_lib.exercises.ch01.judges.walls import FIRST_WALL
from course_lib.judging import Judging

JUDGINGS: dict[str, Judging] = {
    "state-13b": STATE_13B,
    "train-days-7b": TRAIN_DAYS,
    "mfu-waste": MFU_WASTE,
    "predict-weeks": PREDICT_WEEKS,
    "which-peak": WHICH_PEAK,
    "first-wall": FIRST_WALL,
    "audit-one-step": AUDIT_ONE_STEP,
    "audit-run-length": AUDIT_RUN_LENGTH,
    "years-to-weeks": YEARS_TO_WEEKS,
    "mfu-bug": MFU_BUG,
    "triage-six": TRIAGE_SIX,
    "cost-sensitivity": COST_SENSITIVITY,
}

__all__ = ["DRILLS", "JUDGINGS"]
