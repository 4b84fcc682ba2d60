"""Chapter 11, "Sequence and context parallelism: can several ranks share one sequence?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch11.cards.audits import AUDIT_CONTEXT
from course_lib.exercises.ch11.cards.drills import DRILLS
from course_lib.exercises.ch11.cards.exchange import ULYSSES
from course_lib.exercises.ch11.cards.layout import (
    MEAN_OVER_MESH,
    PREDICT_BALANCE,
    SHIFTED_TARGETS,
    SPLIT_DOCUMENTS,
    ZIG_ZAG,
)
from course_lib.exercises.ch11.cards.norms import ACTIVATION_SHARES, NORM_GRADIENTS
from course_lib.exercises.ch11.cards.reach import HIDE_RING, WINDOW_HALO
from course_lib.exercises.ch11.cards.ring import MERGE, RING_ATTENTION, RING_BACKWARD
from course_lib.exercises.ch11.numbers import NUMBERS

CARDS = (
    ACTIVATION_SHARES,
    NORM_GRADIENTS,
    MERGE,
    RING_ATTENTION,
    RING_BACKWARD,
    PREDICT_BALANCE,
    ZIG_ZAG,
    SHIFTED_TARGETS,
    ULYSSES,
    SPLIT_DOCUMENTS,
    WINDOW_HALO,
    HIDE_RING,
    MEAN_OVER_MESH,
    AUDIT_CONTEXT,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
