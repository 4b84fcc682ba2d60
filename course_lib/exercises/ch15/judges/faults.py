"""Judges of chapter 15's exercises on a run that can be trusted: a ring, labels, trainings, failures, a report."""

from course_lib.exercises.ch15.judges.faults_labels import LABELS
from course_lib.exercises.ch15.judges.faults_report import REPORT
from course_lib.exercises.ch15.judges.faults_ring import RING
from course_lib.exercises.ch15.judges.faults_smoke import TRAININGS
from course_lib.exercises.ch15.judges.faults_zoo import ZOO
from course_lib.judging import Judging

JUDGINGS: dict[str, Judging] = {**RING, **LABELS, **TRAININGS, **ZOO, **REPORT}
