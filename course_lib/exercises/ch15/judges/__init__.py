"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.ch15.judges.drills import DRILLS
from course_lib.exercises.ch15.judges.faults import FAULTS
from course_lib.exercises.ch15.judges.faults_report import REPORTS
from course_lib.exercises.ch15.judges.faults_smoke import TRAININGS
from course_lib.exercises.ch15.judges.faults_zoo import FAILURES
from course_lib.exercises.ch15.judges.links_audits import AUDITS
from course_lib.exercises.ch15.judges.links_machines import MACHINES
from course_lib.exercises.ch15.judges.links_mfu import HONEST
from course_lib.exercises.ch15.judges.links_scaling import SCALING
from course_lib.exercises.ch15.judges.links_sweeps import SWEEPS
from course_lib.exercises.ch15.judges.steps import STEPS
from course_lib.exercises.ch15.judges.steps_memory import MEMORY

LINKS = {**MACHINES, **SWEEPS, **HONEST, **SCALING, **AUDITS}
JUDGINGS = {**LINKS, **STEPS, **MEMORY, **FAULTS, **TRAININGS, **FAILURES, **REPORTS}

__all__ = ["DRILLS", "JUDGINGS"]
