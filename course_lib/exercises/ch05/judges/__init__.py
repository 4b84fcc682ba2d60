"""Chapter 05's judges, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.exercises.ch05.judges.bounds import BOUNDS
from course_lib.exercises.ch05.judges.formats import FORMATS
from course_lib.exercises.ch05.judges.recipe import RECIPE
from course_lib.exercises.ch05.judges.scaling import SCALING
from course_lib.exercises.ch05.judges.storage import STORAGE
from course_lib.judging import DrillKey

JUDGINGS = {**FORMATS, **STORAGE, **SCALING, **BOUNDS, **RECIPE}
DRILLS: Mapping[str, DrillKey] = {}

__all__ = ["DRILLS", "JUDGINGS"]
