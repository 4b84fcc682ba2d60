"""Chapter 13, "Meshes and planning: which strategy, on which links?": cards, drills and the numbers of its prose."""

from course_chapters.ch13.exercises.drills import DRILLS
from course_chapters.ch13.exercises.numbers import NUMBERS
from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "batch-on-mesh",
    "mesh-coordinates",
    "swapped-mesh",
    "crossed-wires",
    "predict-swapped-axes",
    "place-axes",
    "shared-adapter",
    "norm-on-mesh",
    "blast-radius",
    "communication-term",
    "repair-calculator",
    "cheapest-layout",
    "audit-meshes",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
