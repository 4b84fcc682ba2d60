"""Chapter 01, "The three walls: why not one GPU?": cards, drills and the numbers of its prose."""

from course_lib.exercises.ch01.cards.audits import AUDITS
from course_lib.exercises.ch01.cards.core import BEFORE_WALLS
from course_lib.exercises.ch01.cards.drills import DRILLS
from course_lib.exercises.ch01.cards.more import PROBLEMS
from course_lib.exercises.ch01.cards.walls import FIRST_WALL
from course_lib.exercises.ch01.numbers import NUMBERS

ORDER = (
    "state-13b",
    "predict-weeks",
    "which-peak",
    "train-days-7b",
    "mfu-bug",
    "years-to-weeks",
    "mfu-waste",
    "cost-sensitivity",
    "first-wall",
    "triage-six",
    "audit-one-step",
    "audit-run-length",
)
_BY_ID = {card.id: card for card in (*BEFORE_WALLS, FIRST_WALL, *AUDITS, *PROBLEMS)}
CARDS = (*(_BY_ID[name] for name in ORDER),)

__all__ = ["CARDS", "DRILLS", "NUMBERS"]
