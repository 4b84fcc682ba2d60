"""Chapter 15's judges of machines and rates, by exercise."""

from course_lib.exercises.ch15.judges.links_audits import AUDITS
from course_lib.exercises.ch15.judges.links_bus import BUSES
from course_lib.exercises.ch15.judges.links_machines import MACHINES
from course_lib.exercises.ch15.judges.links_mfu import RATES
from course_lib.exercises.ch15.judges.links_scaling import SCALINGS
from course_lib.exercises.ch15.judges.links_sweeps import SWEEPS

JUDGINGS = {**MACHINES, **SWEEPS, **RATES, **BUSES, **SCALINGS, **AUDITS}
