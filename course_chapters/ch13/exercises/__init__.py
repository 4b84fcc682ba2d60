"""Chapter 13, "Meshes and planning: which strategy, on which links?": cards in their order."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "batch-on-mesh",
    "mesh-coordinates",
    "place-axes",
    "communication-term",
    "cheapest-layout",
    "crossed-wires",
    "swapped-mesh",
    "predict-swapped-axes",
    "shared-adapter",
    "repair-calculator",
    "audit-meshes",
    "norm-on-mesh",
    "blast-radius",
)
