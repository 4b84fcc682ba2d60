"""Chapter 08's judges: state, parts on ranks, traces, groups and times, the audit, the answers to its drills."""

from course_lib.exercises.judging.ch08_audits import AUDITS
from course_lib.exercises.judging.ch08_bug import BUG
from course_lib.exercises.judging.ch08_clip import CLIP
from course_lib.exercises.judging.ch08_drills import DRILLS
from course_lib.exercises.judging.ch08_fsdp import FSDP
from course_lib.exercises.judging.ch08_hsdp import GROUPS
from course_lib.exercises.judging.ch08_moved import MOVED
from course_lib.exercises.judging.ch08_numbers import NUMBERS
from course_lib.exercises.judging.ch08_owned import OWNED
from course_lib.exercises.judging.ch08_state import STATE
from course_lib.exercises.judging.ch08_traces import TRACES

JUDGINGS = {**STATE, **OWNED, **FSDP, **CLIP, **BUG, **TRACES, **GROUPS, **NUMBERS, **MOVED, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
