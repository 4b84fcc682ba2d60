"""Chapter 05's judges, and the answers to its drills."""

from course_lib.exercises.ch05.judges.audits import AUDITS
from course_lib.exercises.ch05.judges.bounds import BOUNDS
from course_lib.exercises.ch05.judges.drills import DRILLS
from course_lib.exercises.ch05.judges.formats import FORMATS
from course_lib.exercises.ch05.judges.ranks import RANKS
from course_lib.exercises.ch05.judges.recipe import RECIPE
from course_lib.exercises.ch05.judges.scaling import SCALING
from course_lib.exercises.ch05.judges.storage import STORAGE
from course_lib.exercises.ch05.judges.updates import UPDATES

JUDGINGS = {**UPDATES, **FORMATS, **STORAGE, **SCALING, **RANKS, **BOUNDS, **RECIPE, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
