"""A notebook in its committed form: readable ids, no outputs, points from the cards, ordered keys.

The form depends only on the cells, so tidying twice changes nothing and a changed sentence is a one-line diff.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType

from course_grader.notebooks import Cell, Notebook, grade_meta, parse, render

CHECK_SUFFIX = "-check"  # the check cell of exercise "ring-bytes" has grade_id "ring-bytes-check"

# What editors leave in a cell's metadata: where it was scrolled to, when it ran, which browser drew it.
_EDITORS_KEYS = (
    "collapsed",
    "scrolled",
    "execution",
    "ExecuteTime",
    "vscode",
    "colab",
    "id",
    "outputId",
    "editable",
    "deletable",
    "trusted",
    "slideshow",
)
_NBGRADER = {"grade": False, "locked": False, "schema_version": 3, "solution": False, "task": False}
_RANDOM_ID = re.compile(r"[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|cell-\d+")
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def tidy_text(
    text: str,
    chapter: str,
    points: Mapping[str, float],
    name: str = "the notebook",
    worked: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """A source notebook's text in its committed form; `worked` gives answer cells by exercise, the others stay."""
    notebook = parse(text, name)
    for cell in notebook["cells"]:
        if (meta := grade_meta(cell)).get("solution") and meta.get("grade_id") in worked:
            cell["source"] = worked[meta["grade_id"]]
    return render(tidy(notebook, chapter, points))


def tidy(notebook: Notebook, chapter: str, points: Mapping[str, float]) -> Notebook:
    """A source notebook in its committed form; `points` maps exercise ids to the points of their cards."""
    ids = _ids(notebook["cells"], chapter)
    cells = [_tidy_cell(cell, ident, points) for cell, ident in zip(notebook["cells"], ids, strict=True)]
    course = {"chapter": chapter}
    metadata = {"course": course, "kernelspec": _KERNEL, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _tidy_cell(cell: Cell, ident: str, points: Mapping[str, float]) -> Cell:
    kept = {key: value for key, value in cell["metadata"].items() if key not in (*_EDITORS_KEYS, "nbgrader")}
    if tags := cell["metadata"].get("tags"):
        kept["tags"] = sorted(set(tags))
    else:
        kept.pop("tags", None)
    if meta := grade_meta(cell):
        kept["nbgrader"] = _tidy_grade_meta(meta, points)
    tidied: Cell = {"cell_type": cell["cell_type"], "id": ident, "metadata": kept, "source": cell["source"].rstrip()}
    if cell["cell_type"] == "code":
        tidied |= {"execution_count": None, "outputs": []}
    elif cell.get("attachments"):
        tidied["attachments"] = deepcopy(cell["attachments"])
    return tidied


def _tidy_grade_meta(meta: Mapping[str, object], points: Mapping[str, float]) -> dict[str, object]:
    """nbgrader's fields of a source cell; a check cell gets its card's points."""
    tidied = {**_NBGRADER, **{key: meta[key] for key in (*_NBGRADER, "grade_id") if key in meta}, "schema_version": 3}
    if tidied["grade"] or tidied["task"]:
        exercise = str(tidied["grade_id"]).removesuffix(CHECK_SUFFIX)
        tidied["points"] = points.get(exercise, meta.get("points", 0))
    return tidied


def _ids(cells: list[Cell], chapter: str) -> list[str]:
    """A readable id for each cell: its grade_id, else its readable id, else a slug of its first words."""
    taken: set[str] = {grade_id for cell in cells if (grade_id := grade_meta(cell).get("grade_id"))}
    ids, graded = [], set()
    for cell in cells:
        wanted = grade_meta(cell).get("grade_id", "")
        if wanted and wanted not in graded:
            graded.add(wanted)
            ids.append(wanted)
            continue
        own = cell.get("id")
        stem = f"c{chapter}-{slug(cell['source'])}"
        if isinstance(own, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", own) and not _RANDOM_ID.fullmatch(own):
            stem = own
        ident, turn = stem, 1
        while ident in taken:
            turn += 1
            ident = f"{stem}-{turn}"
        taken.add(ident)
        ids.append(ident)
    return ids


def slug(source: str, words: int = 5) -> str:
    """The first words of a cell as an id: "## Why a ring?" -> "why-a-ring"; a definition gives its name."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    defined = next((match.group(1) for line in lines if (match := re.match(r"(?:def|class)\s+(\w+)", line))), "")
    text = defined.replace("_", "-") or (lines[0] if lines else "empty")
    parts = re.findall(r"[a-z0-9]+", text.lower())
    return "-".join(parts[:words])[:48] or "cell"
