"""Chapter 03, "Hardware and roofline: what bounds a step?": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch03.drills import DRILLS
from course_lib.exercises.ch03.numbers import NUMBERS

CARDS = gather(
    __name__,
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

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
