"""Chapter 08's judges: memory, times and groups, parts on ranks, traces, the audit, the answers to its drills."""

from course_lib.exercises.ch08.judges.audits import AUDITS
from course_lib.exercises.ch08.judges.bug import BUG
from course_lib.exercises.ch08.judges.clip import CLIP
from course_lib.exercises.ch08.judges.drills import DRILLS
from course_lib.exercises.ch08.judges.fsdp import FSDP
from course_lib.exercises.ch08.judges.groups import GROUPS
from course_lib.exercises.ch08.judges.memory import MEMORY
from course_lib.exercises.ch08.judges.moved import MOVED
from course_lib.exercises.ch08.judges.owned import OWNED
from course_lib.exercises.ch08.judges.times import TIMES
from course_lib.exercises.ch08.judges.traces import TRACES

JUDGINGS = {**MEMORY, **TIMES, **OWNED, **FSDP, **CLIP, **BUG, **TRACES, **GROUPS, **MOVED, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
