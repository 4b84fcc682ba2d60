"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.ch15.judges.drills import DRILLS
from course_lib.exercises.ch15.judges.faults import LABELS, RING
from course_lib.exercises.ch15.judges.faults_report import REPORT
from course_lib.exercises.ch15.judges.faults_smoke import TRAININGS
from course_lib.exercises.ch15.judges.faults_zoo import ZOO
from course_lib.exercises.ch15.judges.links_audits import AUDITS
from course_lib.exercises.ch15.judges.links_machines import MACHINES
from course_lib.exercises.ch15.judges.links_mfu import RATES
from course_lib.exercises.ch15.judges.links_more import BUSES, SCALINGS
from course_lib.exercises.ch15.judges.links_sweeps import SWEEPS
from course_lib.exercises.ch15.judges.steps import PARTS, PREDICTED, TRACES
from course_lib.exercises.ch15.judges.steps_memory import MONEY, PEAKS, PIPELINES

LINKS = {**MACHINES, **SWEEPS, **RATES, **BUSES, **SCALINGS, **AUDITS}
STEPS = {**PREDICTED, **TRACES, **PARTS, **PEAKS, **PIPELINES, **MONEY}
FAULTS = {**RING, **LABELS, **TRAININGS, **ZOO, **REPORT}
JUDGINGS = {**LINKS, **STEPS, **FAULTS}

__all__ = ["DRILLS", "JUDGINGS"]
