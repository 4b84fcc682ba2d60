"""Chapter 03, "Hardware and roofline: what bounds a step?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch03.cards.audits import AUDIT_SHEETS
from course_lib.exercises.ch03.cards.bench import FIT_ROOFS
from course_lib.exercises.ch03.cards.core import DECODE_BATCH, MATMUL_INTENSITY, NETWORK_ROOF, PREDICT_DECODE
from course_lib.exercises.ch03.cards.drills import DRILLS
from course_lib.exercises.ch03.cards.tiles import QUANTIZATION, TILED_INTENSITY
from course_lib.exercises.ch03.cards.wires import ALPHA_BETA, HASTY_CLOCK, HIERARCHY, WHICH_UPGRADE
from course_lib.exercises.ch03.numbers import NUMBERS

FIRST = (MATMUL_INTENSITY, PREDICT_DECODE, FIT_ROOFS, HASTY_CLOCK, TILED_INTENSITY, QUANTIZATION)
CARDS = (*FIRST, DECODE_BATCH, NETWORK_ROOF, ALPHA_BETA, HIERARCHY, WHICH_UPGRADE, AUDIT_SHEETS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
