"""Judges of chapter 15's exercises on a run that can be trusted: a ring, labels, trainings, failures, a report."""

from course_lib.exercises.judging import Judging
from course_lib.exercises.judging.ch15_faults_labels import LABELS
from course_lib.exercises.judging.ch15_faults_report import REPORT
from course_lib.exercises.judging.ch15_faults_ring import RING
from course_lib.exercises.judging.ch15_faults_smoke import TRAININGS
from course_lib.exercises.judging.ch15_faults_zoo import ZOO

JUDGINGS: dict[str, Judging] = {**RING, **LABELS, **TRAININGS, **ZOO, **REPORT}
