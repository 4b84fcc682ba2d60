"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.ch15.judges import faults as ch15_faults
from course_lib.exercises.ch15.judges import links as ch15_links
from course_lib.exercises.ch15.judges import steps as ch15_steps
from course_lib.exercises.ch15.judges.drills import DRILLS

JUDGINGS = {**ch15_links.JUDGINGS, **ch15_steps.JUDGINGS, **ch15_faults.JUDGINGS}

__all__ = ["DRILLS", "JUDGINGS"]
