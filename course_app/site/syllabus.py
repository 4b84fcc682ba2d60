"""A plan for a term: chapters spread over weeks, by the minutes that reading and core exercises take."""

import math
import re
from collections.abc import Mapping
from functools import cache

from course_chapters import course
from course_chapters.running_example import core_minutes, reading_minutes
from course_lib.folders import ROOT

TERMS = (6, 12)  # weeks


def minutes() -> dict[str, int]:
    """Minutes of each chapter that is here: reading, and core exercises."""
    here = [number for number in course.chapters() if any((ROOT / "solutions").glob(f"{number}_*/{number}_*.ipynb"))]
    return {number: int(reading_minutes(number)) + int(core_minutes(number)) for number in here}


def weeks(minutes: Mapping[str, int], count: int) -> list[list[str]]:
    """The chapters in their order, divided into `count` weeks so that the longest week is as short as possible.

    Raises ValueError if there are fewer chapters than weeks.
    """
    names = list(minutes)
    if not 1 <= count <= len(names):
        raise ValueError(f"{len(names)} chapters do not fill {count} weeks.")

    @cache
    def best(first: int, left: int) -> tuple[int, tuple[int, ...]]:
        """The longest week, and where each week ends, for the chapters from `first` in `left` weeks."""
        if left == 1:
            return sum(minutes[name] for name in names[first:]), (len(names),)
        ways = []
        for end in range(first + 1, len(names) - left + 2):
            rest, ends = best(end, left - 1)
            ways.append((max(sum(minutes[name] for name in names[first:end]), rest), (end, *ends)))
        return min(ways)

    ends = best(0, count)[1]
    return [names[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]


def table(count: int) -> str:
    """The weeks as a Markdown table: chapters, and hours rounded up to halves."""
    taken = minutes()
    lines = ["| Week | Chapters | Hours |", "|---:|---|---:|"]
    for week, names in enumerate(weeks(taken, count), start=1):
        hours = math.ceil(sum(taken[name] for name in names) / 30) / 2
        lines.append(
            f"| {week} | {', '.join(f'{number} {course.chapter(number).name}' for number in names)} | {hours:g} |"
        )
    return "\n".join(lines)


def total_hours() -> int:
    """Hours for reading and core exercises of all chapters, rounded up."""
    return math.ceil(sum(minutes().values()) / 60)


def text() -> str:
    """What a course lead asks: how long it takes, in tables of 6 and of 12 weeks."""
    parts = [
        f"Reading and core exercises take about {total_hours()} hours in all. Exercises beyond the core are extra. A "
        "week's hours are those of its chapters, rounded up to half an hour; the chapters are spread so that the "
        "longest week is as short as possible.",
        *(f"**{count} weeks**\n\n{table(count)}" for count in TERMS),
    ]
    return "\n\n".join(parts)


BEGIN, END = "<!-- table: weeks -->\n", "\n<!-- end: weeks -->"


def filled(page: str) -> str:
    """A page with the weeks between its marks made anew."""
    return re.sub(f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}{text()}{END}", page, flags=re.DOTALL)
