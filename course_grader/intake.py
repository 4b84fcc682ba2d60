"""Read an untrusted notebook in a limited child process and return plain, small data.

`read_hostile` runs in the child, before anything of a submission; `WorkerPool.intake` calls it. It returns only what
grading needs: each cell's type, id, text, nbgrader fields, tags and pictures, and the chapter.
"""

import contextlib
import gc
from pathlib import Path

from course_grader.notebooks import Cell, Notebook, salvaged
from course_lib.messages import Trouble

MAX_BYTES = 50_000_000  # of a notebook; a chapter with all its pictures has a tenth of this
MAX_CELLS = 2_000
SECONDS = 20.0
_MEMORY = 1_000_000_000  # bytes that reading may take
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "grade_id": str,
    "grade": bool,
    "solution": bool,
    "locked": bool,
    "task": bool,
    "points": (int, float),
    "schema_version": int,
    "cell_type": str,
    "checksum": str,
}
_TEXT = 500  # characters of a name
_PICTURES, _PICTURE_BYTES = 100, 20_000_000  # of one notebook


def load(path: Path) -> Notebook:
    """The notebook at `path`; Trouble, in words, for a link, an oversize file, broken JSON or an unfinished merge."""
    if path.is_symlink():
        raise Trouble(f"{path} is a link to another file.", "put the notebook itself there")
    if not path.exists():
        raise Trouble(
            f"There is no {path}.", "`./course learn` copies the chapters into work/; or give the path of a notebook"
        )
    if not path.is_file():
        raise Trouble(f"{path} is not a file.", "give the path of a notebook (.ipynb)")
    if path.stat().st_size > MAX_BYTES:
        size = f"{path.stat().st_size / 1e6:,.0f} MB; a notebook may have {MAX_BYTES / 1e6:.0f} MB"
        raise Trouble(
            f"{path} has {size}.", "clear its outputs (JupyterLab: Edit → Clear Outputs of All Cells) and save"
        )
    try:
        notebook = salvaged(path.read_bytes(), str(path))
    except OSError as error:
        raise Trouble(
            f"{path} cannot be read ({error.strerror}).", "check that the file exists and is yours"
        ) from error
    if len(notebook["cells"]) > MAX_CELLS:
        raise Trouble(
            f"{path} has {len(notebook['cells']):,} cells; at most {MAX_CELLS:,} are graded.",
            "delete the cells that you do not need",
        )
    return notebook


def read_hostile(data: bytes, name: str) -> dict[str, object]:
    """ "notebook", or the "problem" with it and its "way_out"."""
    _limit_memory(len(data))
    gc.disable()  # it would look through millions of values again and again
    try:
        return {"notebook": slim(salvaged(data, name))}
    except Trouble as trouble:
        return {"problem": whole(trouble.problem)[:_TEXT], "way_out": trouble.way_out}
    except (MemoryError, RecursionError):
        return {
            "problem": f"{name} is too large to read.",
            "way_out": "clear its outputs and save, or start from a fresh copy",
        }


def _limit_memory(nbytes: int) -> None:
    """Limit the memory for reading a notebook, where the system supports it."""
    with contextlib.suppress(ImportError, ValueError, OSError, StopIteration):
        import resource

        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        now = 1024 * int(next(line for line in status.splitlines() if line.startswith("VmData")).split()[1])
        most = now + 4 * nbytes + _MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def slim(notebook: Notebook) -> Notebook:
    """A notebook without what grading does not need: outputs, widget state, other metadata."""
    room = [_PICTURES, _PICTURE_BYTES]
    course = notebook["metadata"].get("course")
    kept = (
        {key: value for key, value in course.items() if type(value) in (str, int)} if isinstance(course, dict) else {}
    )
    damage = {"damage": [whole(text)[:_TEXT] for text in notebook["damage"]]} if "damage" in notebook else {}
    return {
        **damage,
        "cells": [_slim_cell(cell, room) for cell in notebook["cells"]],
        "metadata": {
            "course": {
                whole(key)[:_TEXT]: whole(value)[:_TEXT] if type(value) is str else value for key, value in kept.items()
            }
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _slim_cell(cell: Cell, room: list[int]) -> Cell:
    made: Cell = {"cell_type": cell["cell_type"], "metadata": {}, "source": whole(cell["source"])}
    if type(cell.get("damaged")) is str:
        made["damaged"] = whole(cell["damaged"])[:_TEXT]
    if type(cell.get("id")) is str:
        made["id"] = whole(cell["id"])[:_TEXT]
    graded, tags = cell["metadata"].get("nbgrader"), cell["metadata"].get("tags")
    if isinstance(graded, dict):
        fields = {
            key: graded[key]
            for key, kind in _FIELDS.items()
            if isinstance(graded.get(key), kind) and _is_small(graded[key])
        }
        made["metadata"]["nbgrader"] = {
            key: whole(value)[:_TEXT] if type(value) is str else value for key, value in fields.items()
        }
    if isinstance(tags, list):
        made["metadata"]["tags"] = [whole(tag)[:_TEXT] for tag in tags[:50] if type(tag) is str]
    if pictures := _slim_pictures(cell.get("attachments"), room):
        made["attachments"] = pictures
    return made if cell["cell_type"] != "code" else {**made, "outputs": [], "execution_count": None}


def _is_small(value: str | float) -> bool:
    return isinstance(value, str) or abs(value) < 10**9  # false for not-a-number


def _slim_pictures(attachments: object, room: list[int]) -> dict[str, dict[str, str]]:
    """A cell's attached pictures, {name: {type: base64}}, up to the size limit."""
    kept: dict[str, dict[str, str]] = {}
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        for kind, data in bundle.items() if isinstance(bundle, dict) else ():
            if type(data) is str and room[0] > 0 and len(data) <= room[1]:
                room[0], room[1] = room[0] - 1, room[1] - len(data)
                kept.setdefault(whole(name)[:_TEXT], {})[whole(kind)[:_TEXT]] = whole(data)
    return kept


def whole(text: str) -> str:
    """Text without unpaired surrogates, which cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")
