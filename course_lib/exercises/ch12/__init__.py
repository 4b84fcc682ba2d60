"""Chapter 12, "Expert parallelism: what if each token needs only some of the weights?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch12.cards.audits import AUDIT_MOE
from course_lib.exercises.ch12.cards.balance import BALANCE_LOSS, BIAS_BALANCE, NODE_LIMITED
from course_lib.exercises.ch12.cards.drills import DRILLS
from course_lib.exercises.ch12.cards.gradients import EXPERT_GRADIENT_SCALE, EXPERT_NORM
from course_lib.exercises.ch12.cards.layer import EXPERT_PARALLEL, GROUP_BY_EXPERT
from course_lib.exercises.ch12.cards.routing import ACTIVE_PARAMETERS, CAPACITY, PREDICT_DROPS, ROUTE_TOKENS
from course_lib.exercises.ch12.numbers import NUMBERS

CARDS = (
    ACTIVE_PARAMETERS,
    ROUTE_TOKENS,
    GROUP_BY_EXPERT,
    PREDICT_DROPS,
    CAPACITY,
    EXPERT_PARALLEL,
    EXPERT_GRADIENT_SCALE,
    EXPERT_NORM,
    BALANCE_LOSS,
    BIAS_BALANCE,
    NODE_LIMITED,
    AUDIT_MOE,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
