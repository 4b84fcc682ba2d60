"""Chapter 09, "Tensor parallelism: can one matmul be many?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch09.cards.audits import AUDITS
from course_lib.exercises.ch09.cards.core import CORE
from course_lib.exercises.ch09.cards.drills import DRILLS
from course_lib.exercises.ch09.cards.more import FIRST, LAST
from course_lib.exercises.ch09.cards.vocab import VOCAB_CROSS_ENTROPY, VOCAB_EMBEDDING
from course_lib.exercises.ch09.numbers import NUMBERS

CARDS = (*CORE, *FIRST, VOCAB_EMBEDDING, VOCAB_CROSS_ENTROPY, *LAST, *AUDITS)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
