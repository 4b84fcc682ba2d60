"""Notebooks as plain data: read with words for what is wrong, written in one piece. Standard library only."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from course_lib.messages import Trouble

Notebook = dict[str, Any]
Cell = dict[str, Any]


def read(path: Path) -> Notebook:
    """The notebook at `path`, every cell's source as one string. Trouble in words for a file that is not one."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Trouble(
            f"{path} cannot be read ({error.strerror}).", "check that the file exists and is yours"
        ) from error
    except UnicodeDecodeError as error:
        raise Trouble(f"{path} is not a notebook (it is not UTF-8 text).", _BRING_BACK) from error
    return parse(text, str(path))


def salvaged(data: bytes, name: str = "the notebook") -> Notebook:
    """The notebook in `data`, with what can be read of it: `damage` holds a sentence for each part that was left out.

    For grading only: what was left out is lost if the result is written. Trouble if it is no notebook at all.
    """
    damage: list[str] = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8-sig", "replace")
        if b"\0" in data or not text.lstrip().startswith("{"):
            raise Trouble(f"{name} is not a notebook (it is not UTF-8 text).", _BRING_BACK) from error
        damage.append("Some letters are not UTF-8 text; each is read as “\ufffd”.")
    notebook = parse(text, name, salvage=True)
    if found := [*damage, *notebook.get("damage", ())]:
        notebook["damage"] = found
    return notebook


def parse(text: str, name: str = "the notebook", *, salvage: bool = False) -> Notebook:
    """The notebook in `text`; `name` says in an error which file it was. `salvage` is explained at `salvaged`."""
    if not text.strip():
        raise Trouble(f"{name} is empty.", _BRING_BACK)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            way_out = (
                "keep one side of each marked place (git checkout --ours or --theirs takes a whole file), then again"
            )
            raise Trouble(f"{name} holds the marks of an unfinished git merge (line {number}).", way_out)
    damage: list[str] = []
    try:
        notebook, end = json.JSONDecoder().raw_decode(text.lstrip(" \t\r\n")) if salvage else (json.loads(text), None)
        if end is not None and (behind := text.lstrip(" \t\r\n")[end:].strip(" \t\r\n\0")):
            damage.append(f"{len(behind):,} characters behind the notebook's end were left out.")
    except (ValueError, RecursionError) as error:
        raise Trouble(f"{name} is not a whole notebook: {error}.", _BRING_BACK) from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        older = isinstance(notebook, dict) and "worksheets" in notebook
        problem = "is in a format of before 2015" if older else "is JSON, but not a notebook"
        raise Trouble(f"{name} {problem}.", "open it in JupyterLab and save it" if older else _BRING_BACK)
    for number, cell in enumerate(notebook["cells"], 1):
        problem = _problem_with(cell)
        if problem and not salvage:
            raise Trouble(f"{name}: cell {number} {problem}.", _BRING_BACK)
        if problem:
            cell = notebook["cells"][number - 1] = _damaged(cell, problem)
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
            damage.append(f"Cell {number}{f' ({grade_id})' if grade_id else ''} {problem}; it was left out.")
        else:
            cell.pop("damaged", None)  # a word of ours, not of the file
        source = cell.get("source", "")
        cell["source"] = _whole_letters("".join(source))
        if not isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {}
    if not isinstance(notebook.get("metadata"), dict):
        notebook["metadata"] = {}
    notebook.pop("damage", None)
    if len(damage) > _DAMAGES:
        damage = [*damage[:_DAMAGES], f"{len(damage) - _DAMAGES} more such places were left out."]
    return {**notebook, "damage": damage} if damage else notebook


_DAMAGES = 10  # places that are named one by one


def _problem_with(cell: object) -> str:
    """Why a cell cannot be read, "" if it can."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return "is not a notebook cell"
    source = cell.get("source", "")
    is_text = isinstance(source, str) or (isinstance(source, list) and all(isinstance(line, str) for line in source))
    return "" if is_text else "has no text (its source is not text)"


def _damaged(cell: object, problem: str) -> Cell:
    """A raw cell in place of one that cannot be read, with its grade_id and id if it has them."""
    kept: Cell = {"cell_type": "raw", "metadata": {}, "source": "", "damaged": problem}
    if isinstance(cell, dict):
        meta = cell["metadata"].get("nbgrader") if isinstance(cell.get("metadata"), dict) else None
        if isinstance(meta, dict) and isinstance(meta.get("grade_id"), str):
            kept["metadata"]["nbgrader"] = meta
        if isinstance(cell.get("id"), str):
            kept["id"] = cell["id"]
        if isinstance(cell.get("source"), str):
            kept["source"] = cell["source"]
    return kept


def _whole_letters(text: str) -> str:
    """The text with a replacement character for each half of a surrogate pair, which JSON can hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_BRING_BACK = (
    "bring back an earlier state (JupyterLab's File → Reload from Disk or checkpoints; in work/: git log, "
    "git checkout <commit> -- <file>), or move the file away and let `./course learn` copy a fresh one"
)


def render(notebook: Notebook) -> str:
    """The notebook as text, in nbformat's own layout, so that JupyterLab's next save changes nothing else."""
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in notebook["cells"]]
    return json.dumps({**notebook, "cells": cells}, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write_whole(path: Path, data: str | bytes) -> None:
    """Write a file so that at every instant either the old or the new one is there, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    blob = data.encode("utf-8") if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(blob)
            part.flush()
            os.fsync(part.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def chapter_of(notebook: Notebook) -> str:
    """The chapter that a notebook's own metadata names ("01"), "" if it names none."""
    course = notebook["metadata"].get("course")
    chapter = course.get("chapter") if isinstance(course, dict) else None
    return chapter if isinstance(chapter, str) else ""


def same_text(one: Notebook, other: Notebook) -> bool:
    """Whether two notebooks hold the same cells, whatever their outputs."""

    def text(notebook: Notebook) -> list[tuple[str, str]]:
        return [(cell["cell_type"], cell["source"]) for cell in notebook["cells"]]

    return text(one) == text(other)


def grade_meta(cell: Cell) -> dict:
    """A cell's nbgrader metadata; {} where it has none that means anything."""
    meta = cell["metadata"].get("nbgrader")
    return meta if isinstance(meta, dict) and isinstance(meta.get("grade_id"), str) else {}


def is_answer(cell: Cell) -> bool:
    """Whether a learner writes their answer into this cell."""
    return bool(grade_meta(cell).get("solution"))


def is_by_hand(cell: Cell) -> bool:
    """Whether only a person can grade this cell: nbgrader's "Manually graded answer" or "task"."""
    meta = grade_meta(cell)
    return bool(meta.get("task") or (meta.get("grade") and meta.get("solution")))


def is_check(cell: Cell) -> bool:
    """Whether this cell gives points and is not itself an answer."""
    meta = grade_meta(cell)
    return bool(meta.get("grade")) and not meta.get("solution")
