"""Chapter 12, "Expert parallelism: what if each token needs only some of the weights?": cards, drills and the numbers of its prose."""

from course_lib.exercises import gather
from course_lib.exercises.ch12.drills import DRILLS
from course_lib.exercises.ch12.numbers import NUMBERS

CARDS = gather(
    __name__,
    "active-parameters",
    "route-tokens",
    "group-by-expert",
    "predict-drops",
    "capacity",
    "expert-parallel",
    "expert-gradient-scale",
    "expert-norm",
    "balance-loss",
    "bias-balance",
    "node-limited",
    "audit-moe",
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
