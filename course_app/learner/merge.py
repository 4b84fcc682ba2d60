"""A chapter's newer release with the learner's answers and own cells in it: a pure function of three notebooks.

What a person wrote is in the result, whatever happened to the cell it was written in. The words that follow use *base*
for the release that the learner started from, *new* for the release to move to, and *student* for the learner's copy.
"""

import hashlib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

from course_grader.notebooks import Cell, Notebook, grade_meta, is_answer, is_check
from course_lib.messages import count_text

APPENDIX = "## Kept from your earlier copy"
_APPENDIX_ID = "kept-from-your-earlier-copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The merged notebook, and in words what was done."""

    notebook: Notebook
    kept: tuple[str, ...]  # answers that hold the learner's text, by grade_id
    moved: tuple[str, ...]  # what stands elsewhere than it did, a sentence each
    notes: tuple[str, ...]  # what else a reader should know, a sentence each


@dataclass
class _Plan:
    """What goes into the result: text that replaces a release's cell, and cells that follow one."""

    there: frozenset[str]  # the texts that the student's copy already holds
    texts: dict[str, Cell] = field(default_factory=dict)  # key of a cell of `new` -> the student's cell
    after: dict[str, list[Cell]] = field(default_factory=dict)  # key of a cell of `new`, "" for the top -> own cells
    appendix: list[Cell] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merge(base: Notebook | None, new: Notebook, student: Notebook) -> Merged:
    """`new` with the student's answers, own cells and edits in it; nothing that a person wrote is left out.

    Answers are solution cells, matched by grade_id. Own cells are those of neither release; they keep their place after
    the cell they followed. An edited plain cell keeps the student's text where the release left that cell alone, else
    both texts are kept. Check cells are always the release's. `base` is None where it is not known; then every cell
    that differs from `new` counts as edited.
    """
    known = _Known(base, new)
    plan = _Plan(frozenset(cell["source"] for cell in student["cells"]))
    anchor, seen = "", set()
    pairs = list(_matched(student, known))
    first_answers = _first_edited_answers(pairs, known)
    for position, (cell, key) in enumerate(pairs):
        repeated = key in seen or (key in first_answers and first_answers[key] != position)
        if key and not repeated:
            seen.add(key)
            anchor = _place_known(cell, key, anchor, known, plan)
        elif key:
            _place_repeated(cell, key, anchor, known, plan)
        else:
            _follow(plan, anchor, cell)
    _note_missing(seen | set(first_answers), known, plan)
    return Merged(
        notebook=_assemble(new, plan), kept=tuple(plan.kept), moved=tuple(plan.moved), notes=tuple(plan.notes)
    )


# ---------------------------------------------------------------------------------------------- which cell is which


def _key(cell: Cell) -> str:
    """What identifies a release's cell: its grade_id, else its id."""
    if grade_id := grade_meta(cell).get("grade_id"):
        return f"grade:{grade_id}"
    return f"id:{cell['id']}" if isinstance(cell.get("id"), str) else ""


class _Known:
    """The cells of the two releases by key."""

    def __init__(self, base: Notebook | None, new: Notebook) -> None:
        self.new = {key: cell for cell in new["cells"] if (key := _key(cell))}
        self.base_known = base is not None
        self.base = {key: cell for cell in (base or new)["cells"] if (key := _key(cell))}

    def edited(self, cell: Cell, key: str) -> bool:
        """Whether the student's text is neither the base's nor the new release's."""
        released = [notebook[key]["source"] for notebook in (self.base, self.new) if key in notebook]
        return cell["source"].strip() != "" and cell["source"] not in released

    def changed(self, key: str) -> bool:
        """Whether the new release's text may differ from the text that the student started from."""
        if not self.base_known or key not in self.base:
            return True
        return self.base[key]["source"] != self.new[key]["source"]


def _matched(student: Notebook, known: _Known) -> Iterator[tuple[Cell, str]]:
    """The student's cells, each with the key of the release's cell that it is, "" for an own cell.

    Editors that drop ids or metadata are met by the text: a cell that reads like a release's cell is that cell.
    """
    releases = {**known.base, **known.new}
    by_text: dict[tuple[str, str], list[str]] = {}
    for source in (known.new, known.base):
        for key, cell in source.items():
            keys = by_text.setdefault((cell["cell_type"], cell["source"]), [])
            if key not in keys:
                keys.append(key)
    direct = [_key(cell) if _key(cell) in releases else "" for cell in student["cells"]]
    taken = {key for key in direct if key}
    for cell, key in zip(student["cells"], direct, strict=True):
        plain_id = f"id:{cell.get('id')}"
        if not key and plain_id in releases and plain_id not in taken:
            key = plain_id
        if not key and cell["source"].strip():
            same = by_text.get((cell["cell_type"], cell["source"]), [])
            key = next((each for each in same if each not in taken), "")
        if not key:
            key = _lost_metadata(cell, known, taken)
        if not key and is_answer(cell) and not known.base_known:
            key = _key(cell)
        if key:
            taken.add(key)
        yield cell, key


def _lost_metadata(cell: Cell, known: _Known, taken: set[str]) -> str:
    """The answer that this cell is, where an editor dropped the metadata but left the id."""
    for source in (known.new, known.base):
        for key, released in source.items():
            if key not in taken and "id" in cell and released.get("id") == cell["id"] and not grade_meta(cell):
                return key
    return ""


def _first_edited_answers(pairs: list[tuple[Cell, str]], known: _Known) -> dict[str, int]:
    """For each answer that is there more than once: the position of the one that counts, the first with work in it."""
    places: dict[str, list[int]] = {}
    for position, (_, key) in enumerate(pairs):
        if key:
            places.setdefault(key, []).append(position)
    return {
        key: next((p for p in positions if known.edited(pairs[p][0], key)), positions[0])
        for key, positions in places.items()
        if len(positions) > 1
    }


# ---------------------------------------------------------------------------------------------- where it goes


def _place_known(cell: Cell, key: str, anchor: str, known: _Known, plan: _Plan) -> str:
    """Plan for a cell of a release; the value is the anchor for what follows it."""
    edited = known.edited(cell, key)
    if key not in known.new:
        if edited or (key not in known.base and cell["source"].strip()):
            _keep_removed(cell, key, anchor, known, plan)
        return anchor
    released = known.new[key]
    name = _name(released)
    if is_answer(released):
        if edited:
            plan.texts[key] = cell
            plan.kept.append(grade_meta(released)["grade_id"])
            if known.base_known and key in known.base and known.changed(key):
                plan.notes.append(
                    f"The start given for {name} changed; your answer is kept, the new start stands below it."
                )
                if (given := _given(released))["source"] not in plan.there:
                    _follow(plan, key, given)
            if cell["cell_type"] != released["cell_type"]:
                plan.notes.append(
                    f"Your answer to {name} was a {cell['cell_type']} cell; it is a {released['cell_type']} cell again."
                )
    elif is_check(released):
        if edited:
            plan.notes.append(f"The check {name} is the release's again; your change to it is in the old file.")
    elif edited and not known.changed(key) and cell["cell_type"] == released["cell_type"]:
        plan.texts[key] = cell
    elif edited:
        _follow(plan, key, cell)
        plan.moved.append(f"You had changed {name}: your text now stands below the release's.")
    elif cell["source"] == released["source"]:
        plan.texts[key] = cell  # for its outputs
    return key


def _keep_removed(cell: Cell, key: str, anchor: str, known: _Known, plan: _Plan) -> None:
    """Keep what was written in a cell that the new release no longer has."""
    released = known.base.get(key, cell)
    if is_answer(released):
        plan.appendix.append(cell)
        plan.moved.append(
            f"The exercise {_name(released)} is gone; your answer stands at the end, under “{APPENDIX[3:]}”."
        )
    elif is_check(released):
        plan.notes.append(f"The check {_name(released)} is gone; your change to it is in the old file.")
    else:
        _follow(plan, anchor, cell)
        plan.moved.append(
            f"The release dropped {_name(released)}, which you had changed; your text stays as a cell of your own."
        )


def _place_repeated(cell: Cell, key: str, anchor: str, known: _Known, plan: _Plan) -> None:
    """Plan for a further copy of a release's cell: an own cell, if anything was written in it."""
    released = known.new.get(key) or known.base.get(key) or cell
    if is_check(released) or not known.edited(cell, key):
        return
    _follow(plan, anchor, cell)
    plan.notes.append(
        f"{_name(released)} is there more than once: the first with work in it counts, the other stays as a cell "
        f"of your own."
    )


def _note_missing(seen: set[str], known: _Known, plan: _Plan) -> None:
    gone = [cell for key, cell in known.base.items() if key not in seen and key in known.new]
    if answers := [_name(cell) for cell in gone if is_answer(cell)]:
        plan.notes.append(f"You had deleted {', '.join(answers)}; the release's start is back in place.")
    if others := len([cell for cell in gone if not is_answer(cell)]):
        plan.notes.append(
            f"{count_text(others, 'cell')} of the chapter that you had deleted {'are' if others > 1 else 'is'} back."
        )


def _follow(plan: _Plan, anchor: str, cell: Cell) -> None:
    plan.after.setdefault(anchor, []).append(cell)


def _given(released: Cell) -> Cell:
    fence = "```python\n" if released["cell_type"] == "code" else "```text\n"
    text = f"The newer release starts this answer like this:\n\n{fence}{released['source'].rstrip()}\n```"
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _name(cell: Cell) -> str:
    """A cell in words: its grade_id, else the start of its text."""
    if grade_id := grade_meta(cell).get("grade_id"):
        return f"`{grade_id}`"
    line = next((line for line in cell["source"].splitlines() if line.strip()), "")
    return f"the cell “{line[:40].strip()}{'…' if len(line) > 40 else ''}”"


# ---------------------------------------------------------------------------------------------- the result


def _assemble(new: Notebook, plan: _Plan) -> Notebook:
    ids = {cell["id"] for cell in new["cells"] if isinstance(cell.get("id"), str)}
    with_ids = (new.get("nbformat", 4), new.get("nbformat_minor", 5)) >= (4, 5)
    cells = [_own(cell, ids, with_ids) for cell in plan.after.get("", [])]
    for released in new["cells"]:
        key = _key(released)
        cells.append(_with_text(released, plan.texts.get(key)))
        cells.extend(_own(cell, ids, with_ids) for cell in plan.after.get(key, []) if key)
    if plan.appendix:
        text = f"{APPENDIX}\n\nAnswers to exercises that this release no longer has."
        heading = {"cell_type": "markdown", "metadata": {}, "source": text, "id": _APPENDIX_ID}
        if _APPENDIX_ID not in ids:
            cells.append(_own(heading, ids, with_ids))
        cells.extend(_own(cell, ids, with_ids) for cell in plan.appendix)
    return {**deepcopy({name: value for name, value in new.items() if name != "cells"}), "cells": cells}


def _with_text(released: Cell, student: Cell | None) -> Cell:
    """A release's cell with the student's text, pasted pictures and outputs."""
    cell = deepcopy(released)
    if student is None:
        return cell
    cell["source"] = student["source"]
    if cell["cell_type"] == "code":
        cell["outputs"] = deepcopy(student.get("outputs", []))
        cell.setdefault("execution_count", None)
    elif student.get("attachments"):
        cell["attachments"] = deepcopy(student["attachments"])
    return cell


def _own(student: Cell, ids: set[str], with_ids: bool) -> Cell:
    """A cell of the learner's own: no course metadata, an id that nothing else has."""
    cell = deepcopy(student)
    for ours in ("nbgrader", "deletable", "editable"):
        cell["metadata"].pop(ours, None)
    if cell["cell_type"] == "code":
        cell.setdefault("outputs", [])
        cell.setdefault("execution_count", None)
    wanted = cell.get("id")
    if not with_ids:
        cell.pop("id", None)
    elif not isinstance(wanted, str) or wanted in ids or not wanted:
        digest, turn = hashlib.sha256(cell["source"].encode()).hexdigest()[:12], 0
        while (fresh := f"own-{digest}-{turn}") in ids:
            turn += 1
        cell["id"] = fresh
    if with_ids:
        ids.add(cell["id"])
    return cell
