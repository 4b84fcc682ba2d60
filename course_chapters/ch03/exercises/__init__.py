"""Chapter 03, "Hardware and roofline: what bounds a step?": cards in their order."""

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
