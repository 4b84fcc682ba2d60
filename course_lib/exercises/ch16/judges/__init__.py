"""Chapter 16's judges, and the answers to its drills."""

from course_lib.exercises.ch16.judges.audits import AUDITS
from course_lib.exercises.ch16.judges.bills import BILLS
from course_lib.exercises.ch16.judges.drills import DRILLS
from course_lib.exercises.ch16.judges.memory import MEMORY
from course_lib.exercises.ch16.judges.pages import PAGES
from course_lib.exercises.ch16.judges.prefixes import PREFIXES
from course_lib.exercises.ch16.judges.rates import RATES
from course_lib.exercises.ch16.judges.repairs import REPAIRS
from course_lib.exercises.ch16.judges.scheduling import SCHEDULING
from course_lib.exercises.ch16.judges.sizing import SIZING
from course_lib.exercises.ch16.judges.speculation import SPECULATION

JUDGINGS = {**MEMORY, **RATES, **SIZING, **PAGES, **PREFIXES, **REPAIRS, **SCHEDULING, **SPECULATION, **BILLS, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
