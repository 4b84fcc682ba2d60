"""Judges of chapter 02, by exercise id, and the keys of its drills."""

from course_lib.exercises.judging import Judging
from course_lib.exercises.judging.ch02_audits import AUDIT_MEMORY
from course_lib.exercises.judging.ch02_drills import DRILLS
from course_lib.exercises.judging.ch02_graphs import GRAPHS_KEPT_ALIVE
from course_lib.exercises.judging.ch02_ledger import RECONCILE_LEDGER
from course_lib.exercises.judging.ch02_levels import PEAK_NOT_SUM
from course_lib.exercises.judging.ch02_loss import CHUNKED_CROSS_ENTROPY
from course_lib.exercises.judging.ch02_recompute import CHECKPOINTING
from course_lib.exercises.judging.ch02_segments import BEST_SEGMENTS
from course_lib.exercises.judging.ch02_state import COUNT_PARAMETERS, STATE_OF_A_PLAN
from course_lib.exercises.judging.ch02_steps import FIRST_STEP_SPIKE, PREDICT_ACTIVATIONS

JUDGINGS: dict[str, Judging] = {
    "state-of-a-plan": STATE_OF_A_PLAN,
    "count-parameters": COUNT_PARAMETERS,
    "first-step-spike": FIRST_STEP_SPIKE,
    "peak-not-sum": PEAK_NOT_SUM,
    "predict-activations": PREDICT_ACTIVATIONS,
    "reconcile-ledger": RECONCILE_LEDGER,
    "write-checkpointing": CHECKPOINTING,
    "best-segments": BEST_SEGMENTS,
    "chunked-cross-entropy": CHUNKED_CROSS_ENTROPY,
    "graphs-kept-alive": GRAPHS_KEPT_ALIVE,
    "audit-memory": AUDIT_MEMORY,
}

__all__ = ["DRILLS", "JUDGINGS"]
