"""Chapter 09's judges: operators, layers, overlap, the vocabulary, pieces and plans, wires, the audit, the answers to its drills."""

from course_lib.exercises.judging.ch09_attention import ATTENTION
from course_lib.exercises.judging.ch09_audits import AUDITS
from course_lib.exercises.judging.ch09_drills import DRILLS
from course_lib.exercises.judging.ch09_embedding import EMBEDDING
from course_lib.exercises.judging.ch09_loss import LOSS
from course_lib.exercises.judging.ch09_mlp import MLP
from course_lib.exercises.judging.ch09_overlap import OVERLAP
from course_lib.exercises.judging.ch09_pair import PAIR
from course_lib.exercises.judging.ch09_pieces import PIECES
from course_lib.exercises.judging.ch09_plans import PLANS
from course_lib.exercises.judging.ch09_rows import ROWS
from course_lib.exercises.judging.ch09_wires import WIRES

JUDGINGS = {
    **PAIR,
    **MLP,
    **ATTENTION,
    **ROWS,
    **OVERLAP,
    **EMBEDDING,
    **LOSS,
    **PIECES,
    **PLANS,
    **WIRES,
    **AUDITS,
}

__all__ = ["DRILLS", "JUDGINGS"]
