"""Chapter 14, "Faults and checkpoints: what survives a month of failures?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch14.cards.audits import AUDIT_FAULTS
from course_lib.exercises.ch14.cards.drills import DRILLS
from course_lib.exercises.ch14.cards.rates import (
    CHECKPOINT_INTERVAL,
    HOURS_BETWEEN_FAILURES,
    HOW_MANY_SPARES,
    PREDICT_GOODPUT,
)
from course_lib.exercises.ch14.cards.saving import ATOMIC_CHECKPOINT, EXACTLY_ONCE, REPAIR_RESUME, SNAPSHOT_AND_RESTORE
from course_lib.exercises.ch14.cards.watching import BLAME_THE_RANK, FIND_STRAGGLER, GOODPUT_LEDGER, SPIKE_GUARD
from course_lib.exercises.ch14.numbers import NUMBERS

CARDS = (
    HOURS_BETWEEN_FAILURES,
    PREDICT_GOODPUT,
    CHECKPOINT_INTERVAL,
    GOODPUT_LEDGER,
    HOW_MANY_SPARES,
    ATOMIC_CHECKPOINT,
    SNAPSHOT_AND_RESTORE,
    REPAIR_RESUME,
    EXACTLY_ONCE,
    FIND_STRAGGLER,
    BLAME_THE_RANK,
    SPIKE_GUARD,
    AUDIT_FAULTS,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
