"""Notebooks as plain data: read with words for what is wrong, written in one piece. Standard library only."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from course_lib.install import Trouble

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


def parse(text: str, name: str = "the notebook") -> Notebook:
    """The notebook in `text`; `name` says in an error which file it was."""
    if not text.strip():
        raise Trouble(f"{name} is empty.", _BRING_BACK)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            way_out = (
                "keep one side of each marked place (git checkout --ours or --theirs takes a whole file), then again"
            )
            raise Trouble(f"{name} holds the marks of an unfinished git merge (line {number}).", way_out)
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Trouble(f"{name} is not a whole notebook: {error}.", _BRING_BACK) from error
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        older = isinstance(notebook, dict) and "worksheets" in notebook
        problem = "is in a format of before 2015" if older else "is JSON, but not a notebook"
        raise Trouble(f"{name} {problem}.", "open it in JupyterLab and save it" if older else _BRING_BACK)
    for number, cell in enumerate(notebook["cells"], 1):
        if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            raise Trouble(f"{name}: cell {number} is not a notebook cell.", _BRING_BACK)
        source = cell.get("source", "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise Trouble(f"{name}: the text of cell {number} is not text.", _BRING_BACK)
        cell["source"] = _whole_letters(source)
        if not isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {}
    if not isinstance(notebook.get("metadata"), dict):
        notebook["metadata"] = {}
    return notebook


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
