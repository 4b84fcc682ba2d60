"""Chapter 04's judges, by exercise id, and the answers to its drills."""

from collections.abc import Mapping

from course_lib.exercises.ch04.judges.adam import WRITE_ADAMW
from course_lib.exercises.ch04.judges.audits import AUDITS
from course_lib.exercises.ch04.judges.batches import BATCH_IN_TOKENS
from course_lib.exercises.ch04.judges.clipping import CLIP_PIECES
from course_lib.exercises.ch04.judges.curves import SCALING_LAW, SECONDS_TO_A_LOSS
from course_lib.exercises.ch04.judges.decay import WHICH_DECAY
from course_lib.exercises.ch04.judges.drills import DRILLS
from course_lib.exercises.ch04.judges.laws import CRITICAL_BATCH
from course_lib.exercises.ch04.judges.loops import PREDICT_FIRST_UPDATES, REPAIR_TRAINING_LOOP
from course_lib.exercises.ch04.judges.noise import NOISE_SCALE
from course_lib.exercises.ch04.judges.packing import PACK_DOCUMENTS
from course_lib.exercises.ch04.judges.rates import LEARNING_RATE
from course_lib.judging import Judging

JUDGINGS: Mapping[str, Judging] = {
    "batch-in-tokens": BATCH_IN_TOKENS,
    "write-adamw": WRITE_ADAMW,
    "clip-pieces": CLIP_PIECES,
    "learning-rate": LEARNING_RATE,
    "noise-scale": NOISE_SCALE,
    "predict-first-updates": PREDICT_FIRST_UPDATES,
    "repair-training-loop": REPAIR_TRAINING_LOOP,
    "which-decay": WHICH_DECAY,
    "critical-batch": CRITICAL_BATCH,
    "pack-documents": PACK_DOCUMENTS,
    "seconds-to-a-loss": SECONDS_TO_A_LOSS,
    "fit-scaling-law": SCALING_LAW,
    **AUDITS,
}

__all__ = ["DRILLS", "JUDGINGS"]
