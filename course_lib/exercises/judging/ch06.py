"""Chapter 06's judges: neighbours, the ring, other collectives, readings, measurements, the audit, the answers to its drills."""

from course_lib.exercises.judging.ch06_audits import AUDITS
from course_lib.exercises.judging.ch06_drills import DRILLS
from course_lib.exercises.judging.ch06_measuring import MEASURING
from course_lib.exercises.judging.ch06_more import MORE
from course_lib.exercises.judging.ch06_neighbours import NEIGHBOURS
from course_lib.exercises.judging.ch06_reading import READING
from course_lib.exercises.judging.ch06_ring import RING

JUDGINGS = {**NEIGHBOURS, **RING, **MORE, **READING, **MEASURING, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
