"""Chapter 11's judges, and the answers to its drills."""

from course_lib.exercises.ch11.judges.audits import AUDITS
from course_lib.exercises.ch11.judges.backward import BACKWARD
from course_lib.exercises.ch11.judges.drills import DRILLS
from course_lib.exercises.ch11.judges.exchange import EXCHANGE
from course_lib.exercises.ch11.judges.layout import LAYOUT
from course_lib.exercises.ch11.judges.norms import NORMS
from course_lib.exercises.ch11.judges.reach import REACH
from course_lib.exercises.ch11.judges.ring import RING

JUDGINGS = {**NORMS, **RING, **BACKWARD, **LAYOUT, **EXCHANGE, **REACH, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
