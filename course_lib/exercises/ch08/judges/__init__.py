"""Chapter 08's judges: state, parts on ranks, traces, groups and times, the audit, the answers to its drills."""

from course_lib.exercises.ch08.judges.audits import AUDITS
from course_lib.exercises.ch08.judges.bug import BUG
from course_lib.exercises.ch08.judges.clip import CLIP
from course_lib.exercises.ch08.judges.drills import DRILLS
from course_lib.exercises.ch08.judges.fsdp import FSDP
from course_lib.exercises.ch08.judges.hsdp import GROUPS
from course_lib.exercises.ch08.judges.limits import LIMITS
from course_lib.exercises.ch08.judges.moved import MOVED
from course_lib.exercises.ch08.judges.owned import OWNED
from course_lib.exercises.ch08.judges.prefetch import PREFETCH
from course_lib.exercises.ch08.judges.state import STATE
from course_lib.exercises.ch08.judges.traces import TRACES

JUDGINGS = {**STATE, **OWNED, **FSDP, **CLIP, **BUG, **TRACES, **GROUPS, **LIMITS, **PREFETCH, **MOVED, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
