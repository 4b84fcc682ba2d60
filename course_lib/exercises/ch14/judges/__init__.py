"""Chapter 14's judges, and the answers to its drills."""

from course_lib.exercises.ch14.judges.audits import AUDITS
from course_lib.exercises.ch14.judges.drills import DRILLS
from course_lib.exercises.ch14.judges.ledger import LEDGER
from course_lib.exercises.ch14.judges.rates import RATES
from course_lib.exercises.ch14.judges.resuming import RESUMING
from course_lib.exercises.ch14.judges.saving import SAVING
from course_lib.exercises.ch14.judges.watching import WATCHING

JUDGINGS = {**RATES, **RESUMING, **SAVING, **WATCHING, **LEDGER, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
