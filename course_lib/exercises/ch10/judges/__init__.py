"""Chapter 10's judges: bubbles, generators and a validator, real stages, further exercises, the audit, the answers to its drills."""

from course_lib.exercises.ch10.judges.audits import AUDITS
from course_lib.exercises.ch10.judges.charts import CHARTS
from course_lib.exercises.ch10.judges.contest import CONTEST
from course_lib.exercises.ch10.judges.core import CORE
from course_lib.exercises.ch10.judges.drills import DRILLS
from course_lib.exercises.ch10.judges.layers import LAYERS
from course_lib.exercises.ch10.judges.running import RUNNING
from course_lib.exercises.ch10.judges.validator import VALIDATOR

JUDGINGS = {**CORE, **VALIDATOR, **RUNNING, **CONTEST, **LAYERS, **CHARTS, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
