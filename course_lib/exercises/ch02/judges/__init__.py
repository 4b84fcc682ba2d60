"""Judges of chapter 02, by exercise id, and the keys of its drills."""

from course_lib.exercises.ch02.judges import audits, graphs, ledger, levels, loss, recompute, segments, state, steps
from course_lib.exercises.ch02.judges.drills import DRILLS
from course_lib.judging import Judging

JUDGINGS: dict[str, Judging] = {
    "state-of-a-plan": state.STATE_OF_A_PLAN,
    "count-parameters": state.COUNT_PARAMETERS,
    "first-step-spike": steps.FIRST_STEP_SPIKE,
    "peak-not-sum": levels.PEAK_NOT_SUM,
    "predict-activations": steps.PREDICT_ACTIVATIONS,
    "reconcile-ledger": ledger.RECONCILE_LEDGER,
    "write-checkpointing": recompute.CHECKPOINTING,
    "best-segments": segments.BEST_SEGMENTS,
    "chunked-cross-entropy": loss.CHUNKED_CROSS_ENTROPY,
    "graphs-kept-alive": graphs.GRAPHS_KEPT_ALIVE,
    "audit-memory": audits.AUDIT_MEMORY,
}

__all__ = ["DRILLS", "JUDGINGS"]
