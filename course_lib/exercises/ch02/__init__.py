"""Chapter 02, "Memory: what fills it?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch02.cards.audits import AUDIT_MEMORY
from course_lib.exercises.ch02.cards.core import COUNT_PARAMETERS, PEAK_NOT_SUM, PREDICT_ACTIVATIONS, STATE_OF_A_PLAN
from course_lib.exercises.ch02.cards.drills import DRILLS
from course_lib.exercises.ch02.cards.ledger import RECONCILE_LEDGER
from course_lib.exercises.ch02.cards.recompute import BEST_SEGMENTS, CHECKPOINTING
from course_lib.exercises.ch02.cards.training import CHUNKED_CROSS_ENTROPY, FIRST_STEP_SPIKE, GRAPHS_KEPT_ALIVE
from course_lib.exercises.ch02.numbers import NUMBERS

CARDS = (
    STATE_OF_A_PLAN,
    COUNT_PARAMETERS,
    FIRST_STEP_SPIKE,
    PEAK_NOT_SUM,
    PREDICT_ACTIVATIONS,
    RECONCILE_LEDGER,
    CHECKPOINTING,
    BEST_SEGMENTS,
    CHUNKED_CROSS_ENTROPY,
    GRAPHS_KEPT_ALIVE,
    AUDIT_MEMORY,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
