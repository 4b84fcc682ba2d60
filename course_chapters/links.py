"""Links from a picture or a table to chapters: only to those that exist here; the others are greyed."""

import html
import os
from collections.abc import Sequence
from pathlib import Path

from course_chapters import course
from course_lib.draw.explorer import FOLDER

_LATER = "opacity:0.65"  # grey on a light and on a dark page


def present(folder: str, root: Path | None = None) -> bool:
    """Whether this chapter's notebook lies beside the one that is open."""
    return (root or Path.cwd().parent).joinpath(folder, f"{folder}.ipynb").is_file()


def chapter_link(number: str, words: str = "", root: Path | None = None) -> str:
    """HTML: a link to a chapter that exists, else its name in grey with "later"."""
    chapter = course.chapter(number)
    words = html.escape(words or chapter.title)
    if present(chapter.folder, root):
        name = chapter.folder
        address = (
            f"{name}.html" if os.environ.get(FOLDER) else f"../{name}/{name}.ipynb"
        )  # a page on the web, or a notebook
        return f'<a href="{address}" title="{html.escape(chapter.question)}">{words}</a>'
    return f'<span style="{_LATER}" title="{html.escape(chapter.question)}">{words} (later)</span>'


def table(head: tuple[str, ...], body: Sequence[tuple[str, ...]], caption: str = "") -> str:
    """An HTML table of cells that are HTML already; its first column names the row."""
    style = 'style="text-align:left;vertical-align:top;padding:0.25em 0.8em"'
    top = "".join(f'<th scope="col" {style}>{cell}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row" {style}>{row[0]}</th>' + "".join(f"<td {style}>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in body
    )
    said = f"<caption {style}>{caption}</caption>" if caption else ""
    # A page typesets "$2 … $3" as a formula unless it is told to leave the table alone.
    return f'<table class="mathjax_ignore">{said}<thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>'
