"""Chapter 08, "Sharded data parallel: who needs to hold what, when?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch08.cards.audits import AUDITS
from course_lib.exercises.ch08.cards.core import CORE
from course_lib.exercises.ch08.cards.drills import DRILLS
from course_lib.exercises.ch08.cards.more import LOSS_STANDS_STILL, MORE_GPUS_SAME_MEMORY, RESHARD_CHECKPOINT
from course_lib.exercises.ch08.cards.wires import HSDP_GROUP, LARGEST_ALONE, OFFLOAD_BOUNDARY, PREFETCH_DEPTH
from course_lib.exercises.ch08.numbers import NUMBERS

CARDS = (
    *CORE,
    LOSS_STANDS_STILL,
    MORE_GPUS_SAME_MEMORY,
    HSDP_GROUP,
    PREFETCH_DEPTH,
    RESHARD_CHECKPOINT,
    OFFLOAD_BOUNDARY,
    LARGEST_ALONE,
    *AUDITS,
)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
