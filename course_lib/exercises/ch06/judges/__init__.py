"""Chapter 06's judges: neighbors, the ring, other collectives, readings, measurements, the audit, the answers to its drills."""

from course_lib.exercises.ch06.judges.audits import AUDITS
from course_lib.exercises.ch06.judges.drills import DRILLS
from course_lib.exercises.ch06.judges.measuring import MEASURING
from course_lib.exercises.ch06.judges.more import MORE
from course_lib.exercises.ch06.judges.neighbors import NEIGHBORS
from course_lib.exercises.ch06.judges.reading import READING
from course_lib.exercises.ch06.judges.ring import RING

JUDGINGS = {**NEIGHBORS, **RING, **MORE, **READING, **MEASURING, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
