"""Chapter 03, "Hardware and roofline: what bounds a step?": cards, drills and the numbers of its prose."""

from course_chapters.ch03.exercises.drills import DRILLS
from course_chapters.ch03.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "matmul-intensity",
    "square-intensity",
    "predict-decode-rate",
    "fit-roofs",
    "hasty-clock",
    "tiled-intensity",
    "quantization-dips",
    "decode-batch",
    "network-roof",
    "alpha-beta-regimes",
    "cluster-anatomy",
    "hierarchical-bandwidth",
    "which-upgrade",
    "audit-sheets",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
