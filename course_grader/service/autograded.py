"""The notebook for graders: the student's cells in the course's frame, and our findings at each check cell.

Only the text of a submission is copied: outputs are dropped, nbgrader's metadata is the source's, and our messages are
escaped. The points are where nbgrader reads them: the result of the check cell.
"""

import json
import re
from collections.abc import Mapping, Sequence
from html import escape

from course_grader.blank_notebook import blank, rubric
from course_grader.clean_text import clean
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.exercises import Card
from course_grader.notebooks import Cell, Notebook, grade_meta, is_by_hand
from course_grader.records import Report
from course_grader.submission import places
from course_lib.messages import count_text

_FOR_GRADERS = "-for-graders"  # ends the id of a cell with a rubric
ATTACHED = 5_000_000  # characters of pictures that a student pasted into text
_PICTURES = re.compile(r"image/(png|jpeg|gif|webp)")


def autograded(
    source: Notebook, learner: Notebook, cards: Sequence[Card], reports: Sequence[Report], key: str
) -> Notebook:
    """The notebook to show, with every graded cell of the source exactly once, and below one graded by hand its
    rubric."""
    frame = {_key(cell): cell for cell in blank(source)["cells"]}
    at = {position: key_ for key_, position in places(source, learner, cards).items()}
    found = {report.exercise: report for report in reports}
    cells = [
        _shown(cell, frame.get(at.get(position, "")), position, found) for position, cell in enumerate(learner["cells"])
    ]
    keys = [at.get(position, "") for position in range(len(cells))]
    order = list(frame)
    for place, missing in enumerate(order):
        if missing not in keys and grade_meta(frame[missing]):
            before = next((keys.index(earlier) + 1 for earlier in reversed(order[:place]) if earlier in keys), 0)
            cells.insert(before, _ours(_unwritten(frame[missing]), found))
            keys.insert(before, missing)
    for released in source["cells"]:
        if is_by_hand(released):
            _join_answer(cells, keys, _key(released), frame[_key(released)]["source"])
        if text := rubric(released):
            shown: Cell = {
                "cell_type": "markdown",
                "id": grade_meta(released)["grade_id"] + _FOR_GRADERS,
                "metadata": {},
                "source": text,
            }
            cells.insert(keys.index(_key(released)) + 1, shown)
            keys.insert(keys.index(_key(released)) + 1, "")
    course = {**source["metadata"].get("course", {}), "key": key}
    return {"cells": cells, "metadata": {**source["metadata"], "course": course}, "nbformat": 4, "nbformat_minor": 5}


def is_rubric(cell: Cell) -> bool:
    """Whether a cell of the notebook to show is for graders alone; a student's own cells have other ids there."""
    return str(cell.get("id", "")).endswith(_FOR_GRADERS)


def _join_answer(cells: list[Cell], keys: list[str], key: str, stub: str) -> None:
    """Move the text cells that a student added right below an untouched question into it: there a person reads them."""
    at = keys.index(key)
    if cells[at]["source"].strip() != stub.strip():
        return
    while len(cells) > at + 1 and not keys[at + 1] and cells[at + 1]["cell_type"] == "markdown":
        cells[at]["source"] += f"\n\n{cells[at + 1]['source']}"
        del cells[at + 1], keys[at + 1]


def text_of(notebook: Notebook) -> str:
    """The notebook's file, in one line: only programs read it, and there are a thousand of them."""
    return json.dumps(notebook, ensure_ascii=False) + "\n"


def _unwritten(released: Cell) -> Cell:
    """A graded cell that the learner's copy lacks: empty for text, as released for code."""
    text = "" if grade_meta(released).get("solution") and released["cell_type"] != "code" else released["source"]
    return {**released, "source": text}


def _key(cell: Cell) -> str:
    return f"grade:{grade_meta(cell)['grade_id']}" if grade_meta(cell) else f"id:{cell.get('id', '')}"


def _shown(mine: Cell, released: Cell | None, position: int, reports: Mapping[str, Report]) -> Cell:
    """A cell of the learner's copy: their text, everything else ours."""
    if released is not None and grade_meta(released):
        text = (
            released["source"]
            if grade_meta(released).get("locked", not grade_meta(released).get("solution"))
            else mine["source"]
        )
        return _ours({**released, "source": text, "attachments": mine.get("attachments")}, reports)
    kind = "markdown" if mine["cell_type"] == "markdown" else "code"
    cell: Cell = {"cell_type": kind, "id": f"cell-{position + 1}", "metadata": {}, "source": mine["source"]}
    return _finished(cell, mine.get("attachments"), [])


def _ours(released: Cell, reports: Mapping[str, Report]) -> Cell:
    """A graded cell with our metadata and, at a check cell, our findings."""
    meta = dict(grade_meta(released))
    report = (
        reports.get(meta["grade_id"].removesuffix(CHECK_SUFFIX))
        if meta.get("grade") and not meta.get("solution")
        else None
    )
    if report is not None:
        meta["points"] = report.maximum
    cell: Cell = {
        "cell_type": released["cell_type"],
        "id": released.get("id", meta["grade_id"]),
        "metadata": {"nbgrader": meta},
        "source": released["source"],
    }
    return _finished(cell, released.get("attachments"), outputs_of(report) if report is not None else [])


def _finished(cell: Cell, attachments: object, outputs: list[dict[str, object]]) -> Cell:
    if cell["cell_type"] == "code":
        return {**cell, "execution_count": None, "outputs": outputs}
    if kept := _pictures(attachments):
        return {**cell, "attachments": kept}
    return cell


def _pictures(attachments: object) -> dict[str, dict[str, str]]:
    """The pictures attached to a cell, of the allowed types and up to a size."""
    kept: dict[str, dict[str, str]] = {}
    room = ATTACHED
    for name, bundle in attachments.items() if isinstance(attachments, dict) else ():
        for kind, data in bundle.items() if isinstance(bundle, dict) else ():
            if (
                isinstance(data, str)
                and _PICTURES.fullmatch(str(kind))
                and re.fullmatch(r"[\w .()-]{1,100}", str(name))
                and len(data) < room
            ):
                room -= len(data)
                kept.setdefault(name, {})[kind] = data
    return kept


def outputs_of(report: Report) -> list[dict[str, object]]:
    """A check cell's outputs: findings as text and as plain markup, and the points as nbgrader reads them."""
    lines = words_of(report)
    markup = "".join(f"<li>{escape(line)}</li>" for line in lines[1:])
    page = f"<div><p><strong>{escape(lines[0])}</strong></p><ul>{markup}</ul></div>"
    return [
        {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "\n".join(lines), "text/html": page}},
        {
            "output_type": "execute_result",
            "execution_count": None,
            "metadata": {},
            "data": {"text/plain": repr(float(report.points))},
        },
    ]


def words_of(report: Report) -> list[str]:
    """A report in lines of text: points and state, the reason, then each verdict."""
    lines = [f"{report.exercise}: {report.points:g} of {count_text(report.maximum, 'point')} ({report.state})"]
    if report.note:
        lines.append(clean(report.note))
    for verdict in report.verdicts:
        said = f": {verdict.message}" if verdict.message else ""
        lines.append(clean(f"{'✓' if verdict.ok else '✗'} {verdict.kind}, {verdict.part}{said}"))
    return list(dict.fromkeys(lines))
