"""Chapter 07's judges: averages and tokens, hooks and buckets, further exercises, the audit, the answers to its drills."""

from course_lib.exercises.judging.ch07_audits import AUDITS
from course_lib.exercises.judging.ch07_core import CORE
from course_lib.exercises.judging.ch07_drills import DRILLS
from course_lib.exercises.judging.ch07_even import EVEN
from course_lib.exercises.judging.ch07_hooks import HOOKS
from course_lib.exercises.judging.ch07_metrics import METRICS
from course_lib.exercises.judging.ch07_sampler import SAMPLER
from course_lib.exercises.judging.ch07_tokens import TOKENS
from course_lib.exercises.judging.ch07_uneven import UNEVEN

JUDGINGS = {**CORE, **TOKENS, **HOOKS, **SAMPLER, **UNEVEN, **METRICS, **EVEN, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
