"""Chapter 05, "Mixed precision: how few bits are enough?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch05.cards.audits import AUDIT_PRECISION
from course_lib.exercises.ch05.cards.drills import DRILLS
from course_lib.exercises.ch05.cards.formats import LOST_UPDATE, PREDICT_LOST, ROUND_TO_FORMAT
from course_lib.exercises.ch05.cards.recipe import BLOCK_SCALED, MIXED_PRECISION_STEP, ONLINE_SOFTMAX, TOLERANCE_DESIGN
from course_lib.exercises.ch05.cards.scaling import AVERAGE_IN_FP16, LOSS_SCALER, OVERFLOW_EVERYWHERE
from course_lib.exercises.ch05.cards.storage import DECAY_THAT_NEVER_HAPPENS, KAHAN_WEIGHTS, STOCHASTIC_ROUNDING
from course_lib.exercises.ch05.numbers import NUMBERS

CARDS = (
    LOST_UPDATE,
    ROUND_TO_FORMAT,
    PREDICT_LOST,
    STOCHASTIC_ROUNDING,
    DECAY_THAT_NEVER_HAPPENS,
    KAHAN_WEIGHTS,
    LOSS_SCALER,
    OVERFLOW_EVERYWHERE,
    AVERAGE_IN_FP16,
    TOLERANCE_DESIGN,
    ONLINE_SOFTMAX,
    BLOCK_SCALED,
    MIXED_PRECISION_STEP,
    AUDIT_PRECISION,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
