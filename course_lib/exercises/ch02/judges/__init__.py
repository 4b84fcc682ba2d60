"""Judges of chapter 02, by exercise id, and the keys of its drills."""

from course_lib.exercises.ch02.judges.audits import AUDIT_MEMORY
from course_lib.exercises.ch02.judges.drills import DRILLS
from course_lib.exercises.ch02.judges.graphs import GRAPHS_KEPT_ALIVE
from course_lib.exercises.ch02.judges.ledger import RECONCILE_LEDGER
from course_lib.exercises.ch02.judges.levels import PEAK_NOT_SUM
from course_lib.exercises.ch02.judges.loss import CHUNKED_CROSS_ENTROPY
from course_lib.exercises.ch02.judges.recompute import CHECKPOINTING
from course_lib.exercises.ch02.judges.segments import BEST_SEGMENTS
from course_lib.exercises.ch02.judges.state import COUNT_PARAMETERS, STATE_OF_A_PLAN
from course_lib.exercises.ch02.judges.steps import FIRST_STEP_SPIKE, PREDICT_ACTIVATIONS
from course_lib.judging import Judging

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
