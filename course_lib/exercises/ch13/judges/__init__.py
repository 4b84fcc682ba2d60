"""Chapter 13's judges, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.exercises.ch13.judges.audits import AUDITS
from course_lib.exercises.ch13.judges.batch import BATCH
from course_lib.exercises.ch13.judges.calculator import CALCULATOR
from course_lib.exercises.ch13.judges.communication import COMMUNICATION
from course_lib.exercises.ch13.judges.drills import DRILLS
from course_lib.exercises.ch13.judges.levels import LEVELS
from course_lib.exercises.ch13.judges.meshes import MESHES
from course_lib.exercises.ch13.judges.placement import PLACEMENT
from course_lib.exercises.ch13.judges.ranks import RANKS
from course_lib.exercises.ch13.judges.search import SEARCH
from course_lib.exercises.ch13.judges.waiting import WAITING
from course_lib.judging import Judging

JUDGINGS: Mapping[str, Judging] = {
    **BATCH,
    **MESHES,
    **LEVELS,
    **PLACEMENT,
    **RANKS,
    **SEARCH,
    **COMMUNICATION,
    **CALCULATOR,
    **WAITING,
    **AUDITS,
}

__all__ = ["DRILLS", "JUDGINGS"]
