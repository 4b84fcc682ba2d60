"""Chapter 12's judges, and the answers to its drills."""

from course_lib.exercises.ch12.judges.audits import AUDITS
from course_lib.exercises.ch12.judges.balance import BALANCE
from course_lib.exercises.ch12.judges.bias import BIAS
from course_lib.exercises.ch12.judges.capacity import CAPACITY
from course_lib.exercises.ch12.judges.drills import DRILLS
from course_lib.exercises.ch12.judges.gradients import GRADIENTS
from course_lib.exercises.ch12.judges.layer import LAYER
from course_lib.exercises.ch12.judges.nodes import NODES
from course_lib.exercises.ch12.judges.norm import NORM
from course_lib.exercises.ch12.judges.parallel import PARALLEL
from course_lib.exercises.ch12.judges.routing import ROUTING

JUDGINGS = {**ROUTING, **LAYER, **CAPACITY, **PARALLEL, **GRADIENTS, **NORM, **BALANCE, **BIAS, **NODES, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
