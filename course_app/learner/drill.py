"""Five minutes of short questions from chapters passed. What was missed comes back soon, what was known comes back
late.

Leitner's boxes (1972): a right answer moves a question up one box, a wrong one back to the first; a box's questions
come due after its number of days. Every question is asked with fresh numbers.
"""

import math
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypedDict

from course_app.learner.progress import change, read_store

FILE = Path(".course") / "drill.json"
DAYS = (0, 1, 3, 7, 21)  # days until a question of each box is due again


class Entry(TypedDict):
    """What is kept of one question."""

    box: int
    missed: bool
    day: float
    right: int
    wrong: int


class Store(TypedDict):
    """What is kept of earlier sittings."""

    questions: dict[str, Entry]
    sittings: list[dict[str, float]]


_EMPTY: Store = {"questions": {}, "sittings": []}


class Question(Protocol):
    """What a drill of `course_grader.exercises` offers."""

    id: str
    chapter: str
    unit: str

    def variant(self, seed: str) -> "Question":
        """The same question with other numbers."""

    def question(self) -> str:
        """The text with its numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """What a sitting came to."""

    asked: int
    right: int
    missed: tuple[str, ...]  # ids, as they will return


def due(questions: Iterable[Question], store: Store, today: float) -> list[Question]:
    """The questions to ask, missed ones first, then new ones, then those whose box is due; never before their day.

    `today` in days since 1970.
    """
    kept = store["questions"]

    def order(question: Question) -> tuple[int, float]:
        entry = kept.get(question.id)
        if entry is None:
            return 1, 0.0
        return (0 if entry["missed"] else 2), entry["day"]

    ready = [q for q in questions if q.id not in kept or today >= kept[q.id]["day"] + DAYS[kept[q.id]["box"]]]
    return sorted(ready, key=order)


def answered(entry: Entry | None, right: bool, today: float) -> Entry:
    """A question's new entry: up a box if right, else back to the first."""
    old: Entry = entry or {"box": 0, "missed": False, "day": today, "right": 0, "wrong": 0}
    return {
        "box": min(old["box"] + 1, len(DAYS) - 1) if right else 0,
        "missed": not right,
        "day": today,
        "right": old["right"] + right,
        "wrong": old["wrong"] + (not right),
    }


_SCALES = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "million": 1e6,
    "b": 1e9,
    "billion": 1e9,
    "g": 1e9,
    "t": 1e12,
    "trillion": 1e12,
}


def number_in(text: str, unit: str = "") -> float | None:
    """The number that a person typed for a question in `unit`: 1,966 or 1.966e3, 2/3, 70B, 208 GB, 35%; None if it is
    none.

    A percent sign divides by 100 unless the unit is itself percent; 8.8B is 8.8 where the unit counts billions.
    """
    cleaned = text.strip().lower().replace(",", "").replace("_", "").replace(" ", "").lstrip("$~≈")
    if "%" in unit:
        cleaned = cleaned.removesuffix("%")
    elif unit:
        cleaned = cleaned.removesuffix(unit.lower().replace(" ", ""))
    percent, cleaned = cleaned.endswith("%"), cleaned.removesuffix("%")
    found = re.fullmatch(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?:/(\d+\.?\d*))?([a-z]*)", cleaned)
    if not found or (found[3] and found[3] not in _SCALES):
        return None
    divisor = float(found[2]) if found[2] else 1.0
    number = float(found[1]) / divisor * _SCALES.get(found[3], 1.0) if divisor else math.inf
    number = number / 100 if percent else number
    if found[3]:
        number /= _SCALES.get(unit.split(" ")[0].lower(), 1.0)
    return number if math.isfinite(number) else None


def load(work: Path) -> Store:
    """What is kept of earlier sittings."""
    return read_store(work / FILE, _EMPTY)


def sit(
    questions: Sequence[Question],
    verdict: Callable[[Question, float], tuple[bool, str]],
    work: Path,
    *,
    ask: Callable[[str], str],
    say: Callable[[str], None],
    seconds: float = 300.0,
    clock: Callable[[], float] = time.time,
    seed: str | None = None,
) -> Sitting:
    """Ask what is due until the time is over; every answer is kept at once, so that stopping loses nothing.

    `ask` shows a prompt and returns the line typed; an empty line passes (and counts as missed), EOFError ends.
    """
    start, today = clock(), clock() / 86400
    coin = random.Random(seed)
    right, asked, missed = 0, 0, []
    for question in due(questions, load(work), today):
        if clock() - start >= seconds:
            say("Five minutes are over.")
            break
        variant = question.variant(str(coin.getrandbits(48)))
        try:
            ok, words = _one(variant, verdict, ask, say, f"{asked + 1}. {variant.question()}")
        except (EOFError, KeyboardInterrupt):
            say("\nStopped; what you answered is kept.")
            break
        asked, right = asked + 1, right + ok
        if not ok:
            missed.append(question.id)
        say(f"{'Right' if ok else 'Not yet'}. {words}".strip())
        _keep(work, question.id, ok, today)
    if asked:
        summary = {"day": today, "asked": asked, "right": right}
        change(work / FILE, lambda store: store["sittings"].append(summary), _EMPTY)
    return Sitting(asked=asked, right=right, missed=tuple(missed))


def _one(
    variant: Question,
    verdict: Callable[[Question, float], tuple[bool, str]],
    ask: Callable[[str], str],
    say: Callable[[str], None],
    text: str,
) -> tuple[bool, str]:
    say(text)
    while True:
        typed = ask(f"   {variant.unit or 'number'}: ")
        if not typed.strip():
            _, words = verdict(variant, math.nan)
            return False, words
        if (number := number_in(typed, variant.unit)) is not None:
            return verdict(variant, number)
        say("   Please type a number, such as 208, 1.5e9, 2/3 or 70B; an empty line passes.")


def _keep(work: Path, question: str, right: bool, today: float) -> None:
    def add(store: Store) -> None:
        store["questions"][question] = answered(store["questions"].get(question), right, today)

    change(work / FILE, add, _EMPTY)
