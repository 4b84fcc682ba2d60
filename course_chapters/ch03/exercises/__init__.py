"""Chapter 03, "Hardware and roofline: what bounds a step?": cards, drills and the numbers of its prose."""

from course_chapters.ch03.exercises.drills import DRILLS
from course_chapters.ch03.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "matmul-intensity",
    "predict-decode-rate",
    "fit-roofs",
    "decode-batch",
    "network-roof",
    "cluster-anatomy",
    "square-intensity",
    "hasty-clock",
    "tiled-intensity",
    "quantization-dips",
    "alpha-beta-regimes",
    "hierarchical-bandwidth",
    "which-upgrade",
    "audit-sheets",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
