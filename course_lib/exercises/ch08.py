"""Chapter 08, "Sharded data parallel: who needs to hold what, when?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch08_audits import AUDITS
from course_lib.exercises.ch08_core import CORE
from course_lib.exercises.ch08_drills import DRILLS
from course_lib.exercises.ch08_more import LOSS_STANDS_STILL, MORE_GPUS_SAME_MEMORY, RESHARD_CHECKPOINT
from course_lib.exercises.ch08_wires import HSDP_GROUP, LARGEST_ALONE, OFFLOAD_BOUNDARY, PREFETCH_DEPTH
from course_lib.exercises.numbers.ch08 import NUMBERS

CARDS = (*CORE, LOSS_STANDS_STILL, MORE_GPUS_SAME_MEMORY, HSDP_GROUP, PREFETCH_DEPTH, RESHARD_CHECKPOINT, OFFLOAD_BOUNDARY, LARGEST_ALONE, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
