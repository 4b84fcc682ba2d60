"""Chapter 04, "Optimizer and batch: what must scaling not change?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch04.cards.audits import AUDITS
from course_lib.exercises.ch04.cards.core import BATCH_IN_TOKENS, CLIP_PIECES, LEARNING_RATE, NOISE_SCALE, WRITE_ADAMW
from course_lib.exercises.ch04.cards.drills import DRILLS
from course_lib.exercises.ch04.cards.laws import CRITICAL_BATCH, PACK_DOCUMENTS, SCALING_LAW, SECONDS_TO_A_LOSS
from course_lib.exercises.ch04.cards.training import PREDICT_FIRST_UPDATES, REPAIR_TRAINING_LOOP, WHICH_DECAY
from course_lib.exercises.ch04.numbers import NUMBERS

CARDS = (
    BATCH_IN_TOKENS,
    REPAIR_TRAINING_LOOP,
    PREDICT_FIRST_UPDATES,
    WRITE_ADAMW,
    WHICH_DECAY,
    CLIP_PIECES,
    LEARNING_RATE,
    NOISE_SCALE,
    CRITICAL_BATCH,
    SECONDS_TO_A_LOSS,
    PACK_DOCUMENTS,
    SCALING_LAW,
    *AUDITS,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
