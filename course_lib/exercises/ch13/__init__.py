"""Chapter 13, "Meshes and planning: which strategy, on which links?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch13.cards.audits import AUDIT_MESHES
from course_lib.exercises.ch13.cards.drills import DRILLS
from course_lib.exercises.ch13.cards.meshes import BATCH_ON_MESH, CROSSED_WIRES, MESH_COORDINATES
from course_lib.exercises.ch13.cards.models import BLAST_RADIUS, COMMUNICATION_TERM, REPAIR_CALCULATOR, SHARED_ADAPTER
from course_lib.exercises.ch13.cards.placement import NORM_ON_MESH, PLACE_AXES, PREDICT_SWAPPED, SWAPPED_MESH
from course_lib.exercises.ch13.cards.search import CHEAPEST_LAYOUT
from course_lib.exercises.ch13.numbers import NUMBERS

CARDS = (
    BATCH_ON_MESH,
    MESH_COORDINATES,
    SWAPPED_MESH,
    CROSSED_WIRES,
    PREDICT_SWAPPED,
    PLACE_AXES,
    SHARED_ADAPTER,
    NORM_ON_MESH,
    BLAST_RADIUS,
    COMMUNICATION_TERM,
    REPAIR_CALCULATOR,
    CHEAPEST_LAYOUT,
    AUDIT_MESHES,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
