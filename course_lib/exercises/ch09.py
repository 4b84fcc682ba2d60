"""Chapter 09, "Tensor parallelism: can one matmul be many?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch09_audits import AUDITS
from course_lib.exercises.ch09_core import CORE
from course_lib.exercises.ch09_drills import DRILLS
from course_lib.exercises.ch09_more import FIRST, LAST
from course_lib.exercises.ch09_vocab import VOCAB_CROSS_ENTROPY, VOCAB_EMBEDDING
from course_lib.exercises.numbers.ch09 import NUMBERS

CARDS = (*CORE, *FIRST, VOCAB_EMBEDDING, VOCAB_CROSS_ENTROPY, *LAST, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
