"""Chapter 03, "Hardware and roofline: what bounds a step?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch03.cards.audits import AUDIT_SHEETS
from course_lib.exercises.ch03.cards.bench import FIT_ROOFS
from course_lib.exercises.ch03.cards.core import FIRST
from course_lib.exercises.ch03.cards.drills import DRILLS
from course_lib.exercises.ch03.cards.tiles import QUANTIZATION, TILED_INTENSITY
from course_lib.exercises.ch03.cards.wires import WIRES
from course_lib.exercises.ch03.numbers import NUMBERS

ORDER = (
    "matmul-intensity",
    "predict-decode-rate",
    "fit-roofs",
    "hasty-clock",
    "tiled-intensity",
    "quantization-dips",
    "decode-batch",
    "network-roof",
    "alpha-beta-regimes",
    "hierarchical-bandwidth",
    "which-upgrade",
    "audit-sheets",
)
_BY_ID = {card.id: card for card in (*FIRST, FIT_ROOFS, TILED_INTENSITY, QUANTIZATION, *WIRES, AUDIT_SHEETS)}
CARDS = tuple(_BY_ID[name] for name in ORDER)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
