"""Chapter 11's judges, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.exercises.ch11.judges.backward import BACKWARD
from course_lib.exercises.ch11.judges.costs import COSTS
from course_lib.exercises.ch11.judges.exchange import EXCHANGE
from course_lib.exercises.ch11.judges.layout import LAYOUT
from course_lib.exercises.ch11.judges.norms import NORMS
from course_lib.exercises.ch11.judges.ring import RING
from course_lib.judging import DrillKey

JUDGINGS = {**NORMS, **RING, **BACKWARD, **LAYOUT, **EXCHANGE, **COSTS}
DRILLS: Mapping[str, DrillKey] = {}

__all__ = ["DRILLS", "JUDGINGS"]
