"""Chapter 07's judges: averages and tokens, hooks and buckets, further exercises, the audit, the answers to its drills."""

from course_lib.exercises.ch07.judges.audits import AUDITS
from course_lib.exercises.ch07.judges.core import CORE
from course_lib.exercises.ch07.judges.drills import DRILLS
from course_lib.exercises.ch07.judges.even import EVEN
from course_lib.exercises.ch07.judges.hooks import HOOKS
from course_lib.exercises.ch07.judges.metrics import METRICS
from course_lib.exercises.ch07.judges.sampler import SAMPLER
from course_lib.exercises.ch07.judges.tokens import TOKENS
from course_lib.exercises.ch07.judges.uneven import UNEVEN

JUDGINGS = {**CORE, **TOKENS, **HOOKS, **SAMPLER, **UNEVEN, **METRICS, **EVEN, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
