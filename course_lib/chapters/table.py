"""Rows as a table in a notebook."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from IPython.display import Markdown

from course_lib.exercises.placeholders import keep_dollars


def table(rows: Sequence[Mapping[str, Any]]) -> Markdown:
    """A Markdown table of `rows`, which all have the same keys: the column headings, in order."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    markdown = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return Markdown(keep_dollars(markdown.replace("$", "\\$")))


def columns(headings: str, rows: Iterable[Sequence[Any]]) -> Markdown:
    """A Markdown table with `headings`, separated by bars, over `rows` of as many cells; ValueError for a row of another length."""
    names = headings.split(" | ")
    return table([dict(zip(names, row, strict=True)) for row in rows])
