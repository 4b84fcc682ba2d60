"""Rows as a table in a notebook."""

import re
from collections.abc import Iterable, Mapping, Sequence

from IPython.display import Markdown

from course_grader.exercises.placeholders import NO_BREAK, keep_dollars

_POWER = re.compile("(?<=[0-9]) × 10(?=[⁻⁰¹²³⁴⁵⁶⁷⁸⁹])")


def table(rows: Sequence[Mapping[str, object]], assumes: str = "") -> Markdown:
    """A Markdown table of `rows`, which all have the same keys: the column headings, in order. No line ends within "3.4
    × 10³⁸".

    `assumes` stands below it: the conditions of its numbers.
    """
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([_kept_together(cell) for cell in row.values()] for row in rows)]
    markdown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    below = f"\n\n*{assumes}*" if assumes else ""
    return Markdown(keep_dollars((markdown + below).replace("$", "\\$")))


def _kept_together(cell: object) -> str:
    return _POWER.sub(f"{NO_BREAK}×{NO_BREAK}10", str(cell))


def columns(headings: str, rows: Iterable[Sequence[object]], assumes: str = "") -> Markdown:
    """A Markdown table with `headings`, separated by bars, over `rows` of as many cells; ValueError for a row of
    another length."""
    names = headings.split(" | ")
    return table([dict(zip(names, row, strict=True)) for row in rows], assumes)
