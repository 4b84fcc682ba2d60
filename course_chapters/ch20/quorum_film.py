"""Replicas that leave and join, round by round, from a run of `quorum`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from course_chapters.ch20.quorum import Round
from course_lib.draw.explore import Explorer, explore, play
from course_lib.draw.palette import BLUE, EMPTY, INK, ORANGE, SOFT, VERMILION
from course_lib.draw.sheets import Sheet
from course_lib.estimate.units import count_text

KEYS = {"sends its gradient": BLUE, "copies the state": ORANGE, "is lost": VERMILION, "is not there": EMPTY}
LEFT, RIGHT, ROW = 1.05, 7.05, 0.36  # inches


def role(meeting: Round, replica: int) -> str:
    """What a replica does in a round: one of `KEYS`."""
    if replica not in meeting.members:
        return "is not there"
    return "is lost" if replica in meeting.lost else list(KEYS)[replica in meeting.copying]


def draw_rounds(rounds: Sequence[Round], number: int) -> Sheet:
    """Who was in each quorum up to round `number`, counted from 1, and what the sum of gradients was divided by."""
    replicas = 1 + max(max(each.members) for each in rounds)
    sheet, now = Sheet(1.85 + ROW * replicas), rounds[number - 1]
    ends = "taken" if now.taken else f"discarded, because {count_text(len(now.lost), 'replica')} was lost"
    sheet.head(
        f"Round {number}, step {now.step}: {ends}", f"In the quorum: replicas {', '.join(map(str, now.members))}."
    )
    wide, top = (RIGHT - LEFT) / len(rounds), 1.1 + ROW * replicas
    for replica in range(replicas):
        sheet.text(0.15, top - ROW * (replica + 0.5), f"replica {replica}", va="center")
    for kind, fill in KEYS.items():
        boxes = [
            (
                LEFT + wide * at + 0.03,
                LEFT + wide * (at + 1) - 0.03,
                top - ROW * (row + 1) + 0.04,
                top - ROW * row - 0.04,
            )
            for at, each in enumerate(rounds[:number])
            for row in range(replicas)
            if role(each, row) == kind
        ]
        sheet.boxes(boxes, fill)
    for y, name in ((0.86, "step"), (0.6, "divisor")):
        sheet.text(0.15, y, name, va="center")
    for at, each in enumerate(rounds[:number]):
        middle = LEFT + wide * (at + 0.5)
        sheet.text(middle, 0.86, str(each.step), ha="center", va="center")
        divisor = str(each.divisor) if each.taken else "discarded"
        sheet.text(middle, 0.6, divisor, ha="center", va="center", ink=INK if each.taken else SOFT)
    sheet.keys(0.22, 0.2, KEYS, gap=0.35)
    counted = ", ".join(f"step {each.step} by {each.divisor}" for each in rounds[:number] if each.taken)
    sheet.alt = f"Round {number} of {len(rounds)}: {ends}. Sums of gradients so far were divided: {counted or 'none'}."
    return sheet


def replicas_film(rounds: Sequence[Round]) -> Explorer:
    """Play the rounds of a run."""
    return explore(partial(draw_rounds, rounds), number=play(range(1, len(rounds) + 1), 1, label="round", interval=900))
