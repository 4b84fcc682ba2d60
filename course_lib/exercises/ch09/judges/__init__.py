"""Chapter 09's judges: operators, layers, overlap, the vocabulary, pieces and plans, wires, the audit, the answers to its drills."""

from course_lib.exercises.ch09.judges.attention import ATTENTION
from course_lib.exercises.ch09.judges.audits import AUDITS
from course_lib.exercises.ch09.judges.drills import DRILLS
from course_lib.exercises.ch09.judges.embedding import EMBEDDING
from course_lib.exercises.ch09.judges.loss import LOSS
from course_lib.exercises.ch09.judges.mlp import MLP
from course_lib.exercises.ch09.judges.overlap import OVERLAP
from course_lib.exercises.ch09.judges.pair import PAIR
from course_lib.exercises.ch09.judges.pieces import PIECES
from course_lib.exercises.ch09.judges.plans import PLANS
from course_lib.exercises.ch09.judges.rows import ROWS
from course_lib.exercises.ch09.judges.wires import WIRES

JUDGINGS = {**PAIR, **MLP, **ATTENTION, **ROWS, **OVERLAP, **EMBEDDING, **LOSS, **PIECES, **PLANS, **WIRES, **AUDITS}

__all__ = ["DRILLS", "JUDGINGS"]
