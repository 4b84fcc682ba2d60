"""Chapter 10's judges: bubbles, generators and a validator, real stages, further exercises, the audit, the answers to its drills."""

from course_lib.exercises.judging.ch10_audits import AUDITS
from course_lib.exercises.judging.ch10_contest import CONTEST
from course_lib.exercises.judging.ch10_core import CORE
from course_lib.exercises.judging.ch10_drills import DRILLS
from course_lib.exercises.judging.ch10_more import MORE
from course_lib.exercises.judging.ch10_running import RUNNING
from course_lib.exercises.judging.ch10_validator import VALIDATOR

JUDGINGS = {**CORE, **VALIDATOR, **RUNNING, **CONTEST, **MORE, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
