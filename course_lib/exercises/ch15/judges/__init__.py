"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.ch15.judges.drills import DRILLS
from course_lib.exercises.ch15.judges.faults_labels import LABELS
from course_lib.exercises.ch15.judges.faults_report import REPORT
from course_lib.exercises.ch15.judges.faults_ring import RING
from course_lib.exercises.ch15.judges.faults_smoke import TRAININGS
from course_lib.exercises.ch15.judges.faults_zoo import ZOO
from course_lib.exercises.ch15.judges.links_audits import AUDITS
from course_lib.exercises.ch15.judges.links_bus import BUSES
from course_lib.exercises.ch15.judges.links_machines import MACHINES
from course_lib.exercises.ch15.judges.links_mfu import RATES
from course_lib.exercises.ch15.judges.links_scaling import SCALINGS
from course_lib.exercises.ch15.judges.links_sweeps import SWEEPS
from course_lib.exercises.ch15.judges.steps_fsdp import PEAKS
from course_lib.exercises.ch15.judges.steps_money import MONEY
from course_lib.exercises.ch15.judges.steps_parts import PARTS
from course_lib.exercises.ch15.judges.steps_pipeline import PIPELINES
from course_lib.exercises.ch15.judges.steps_traces import PREDICTED, TRACES

LINKS = {**MACHINES, **SWEEPS, **RATES, **BUSES, **SCALINGS, **AUDITS}
STEPS = {**PREDICTED, **TRACES, **PARTS, **PEAKS, **PIPELINES, **MONEY}
FAULTS = {**RING, **LABELS, **TRAININGS, **ZOO, **REPORT}
JUDGINGS = {**LINKS, **STEPS, **FAULTS}

__all__ = ["DRILLS", "JUDGINGS"]
