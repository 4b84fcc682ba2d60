"""Chapter 06's judges: the core, other collectives, readings, the audit, and the answers to its drills."""

from course_lib.exercises.judging.ch06_audits import AUDITS
from course_lib.exercises.judging.ch06_core import CORE
from course_lib.exercises.judging.ch06_drills import DRILLS
from course_lib.exercises.judging.ch06_more import MORE
from course_lib.exercises.judging.ch06_reading import READING

JUDGINGS = {**CORE, **MORE, **READING, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
