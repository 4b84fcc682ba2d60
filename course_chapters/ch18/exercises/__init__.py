"""Chapter 18, "The compiled step: what moves a GPU's own MFU?": cards, drills and the numbers of its prose."""

from course_grader.exercises import gather

CARDS = gather(
    __name__,
    "predict-compiled",
    "which-limit",
    "fuse-or-not",
    "remove-breaks",
    "tiled-attention",
    "diagnose-step",
    "attention-backward",
    "gather-under-matmul",
    "pieces-under-matmul",
    "repair-replay",
    "audit-compiled",
)
