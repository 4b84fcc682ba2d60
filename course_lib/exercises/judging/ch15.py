"""Chapter 15's judges: links and rates, steps and memory, faults and reports, the answers to its drills."""

from course_lib.exercises.judging import ch15_faults, ch15_links, ch15_steps
from course_lib.exercises.judging.ch15_drills import DRILLS

JUDGINGS = {**ch15_links.JUDGINGS, **ch15_steps.JUDGINGS, **ch15_faults.JUDGINGS}

__all__ = ["DRILLS", "JUDGINGS"]
