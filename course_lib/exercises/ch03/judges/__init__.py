"""Judges of chapter 03, by exercise id, and the keys of its drills."""

from course_lib.exercises.ch03.judges.audits import AUDIT_SHEETS
from course_lib.exercises.ch03.judges.bench import FIT_ROOFS
from course_lib.exercises.ch03.judges.clock import HASTY_CLOCK
from course_lib.exercises.ch03.judges.core import DECODE_BATCH, MATMUL_INTENSITY, NETWORK_ROOF, PREDICT_DECODE
from course_lib.exercises.ch03.judges.drills import DRILLS
from course_lib.exercises.ch03.judges.levels import HIERARCHY
from course_lib.exercises.ch03.judges.messages import ALPHA_BETA
from course_lib.exercises.ch03.judges.tiles import QUANTIZATION, TILED_INTENSITY
from course_lib.exercises.ch03.judges.upgrade import WHICH_UPGRADE
from course_lib.judging import Judging

JUDGINGS: dict[str, Judging] = {
    "matmul-intensity": MATMUL_INTENSITY,
    "predict-decode-rate": PREDICT_DECODE,
    "fit-roofs": FIT_ROOFS,
    "tiled-intensity": TILED_INTENSITY,
    "decode-batch": DECODE_BATCH,
    "network-roof": NETWORK_ROOF,
    "hierarchical-bandwidth": HIERARCHY,
    "alpha-beta-regimes": ALPHA_BETA,
    "quantization-dips": QUANTIZATION,
    "which-upgrade": WHICH_UPGRADE,
    "audit-sheets": AUDIT_SHEETS,
    "hasty-clock": HASTY_CLOCK,
}

__all__ = ["DRILLS", "JUDGINGS"]
