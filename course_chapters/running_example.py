"""Texts that the numbers of several chapters share, and the running job's record under one name with them."""

import json
import math
import re
from collections.abc import Callable, Mapping

from course_lib.estimate import compute, facts
from course_lib.estimate.running_plan import BATCH, DEADLINE, EXACT, GPUS, MFU, NETWORK, PARAMS, RING, SEQ, TOKENS
from course_lib.estimate.units import BILLION, count_text, duration_text, money_text, number_text
from course_lib.folders import ROOT

__all__ = ["BATCH", "DEADLINE", "EXACT", "GPUS", "MFU", "NETWORK", "PARAMS", "RING", "SEQ", "TOKENS"]  # fmt: skip

WORDS_A_MINUTE, SECONDS_A_CELL = (
    180,
    20,
)  # a careful reader of technical prose; running a cell and looking at what it shows


def reading(*keys: str) -> str:
    """Sources as a Markdown list, each with its address."""
    sources = [facts.reference(key) for key in keys]
    return "\n".join(f"- {one.authors}, [{one.title}]({one.url}), {one.year}." for one in sources)


def usd_text(usd: float) -> str:
    """Dollars with the sign escaped: Markdown reads a bare one as mathematics."""
    return money_text(usd).replace("$", "\\$")


def core_minutes(chapter: str) -> str:
    """Minutes that a chapter's core exercises take together."""
    from course_grader.exercises import cards  # not at import: cards may import their chapter's numbers

    return str(sum(card.minutes for card in cards(chapter) if card.kind == "core"))


def whole_hours(chapter: str) -> str:
    """Hours that a chapter takes with all that follows its core, and all its exercises."""
    from course_grader.exercises import cards

    minutes = int(reading_minutes(chapter, whole=True)) + sum(card.minutes for card in cards(chapter))
    return number_text(minutes / 60, 2)


def reading_minutes(chapter: str, whole: bool = False) -> str:
    """Minutes to read a chapter's core, or the whole chapter, outside folds and exercises, rounded up to five.

    Technical prose is read at `WORDS_A_MINUTE`, and each code cell takes `SECONDS_A_CELL` to run and to look at.
    """
    (path,) = (ROOT / "solutions").glob(f"{chapter}_*/{chapter}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    if not whole:
        cells = cells[: next(at for at, cell in enumerate(cells) if cell["id"] == f"c{chapter}-core-done")]
    prose = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    words = len(re.sub(r"<details.*?</details>", "", prose, flags=re.S).split())
    code = sum(cell["cell_type"] == "code" and "nbgrader" not in cell["metadata"] for cell in cells)
    minutes = words / WORDS_A_MINUTE + code * SECONDS_A_CELL / 60
    return str(5 * math.ceil(minutes / 5))


def rent(seconds: float, gpus: int) -> str:
    """What it costs to rent this many H100s for this long."""
    return usd_text(compute.cost_usd(compute.device_hours(seconds, gpus), facts.price("H100 hour")))


def opening(chapter: str) -> Mapping[str, Callable[[], str]]:
    """The numbers with which a chapter opens: how long it takes, and the job that it is about."""
    return {
        "core_minutes": lambda: core_minutes(chapter),
        "reading_minutes": lambda: reading_minutes(chapter),
        "whole_hours": lambda: whole_hours(chapter),
        "job": lambda: f"{PARAMS / BILLION:g}B on {GPUS} H100s",
    }


def lab(gpus: int, seconds: float) -> Mapping[str, Callable[[], str]]:
    """The numbers of a lab on rented GPUs: how many, how long, and what it costs."""
    return {
        "lab_gpus": lambda: f"{count_text(gpus, 'H100')}",
        "lab_minutes": lambda: duration_text(seconds),
        "lab_money": lambda: rent(seconds, gpus),
        "price": lambda: usd_text(facts.price("H100 hour")),
    }
