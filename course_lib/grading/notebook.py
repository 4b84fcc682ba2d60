"""Intake: a learner's notebook, read under limits, becomes steps to run: their cells in the course's own frame.

The frame is the source's: every exercise is judged, by our check, whatever became of the check cell. Answers are matched
by grade_id, then by cell id; cells that the course does not know are the learner's own and run where they stand.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from course_lib.exercises import Card
from course_lib.grading.tidy import CHECK_SUFFIX
from course_lib.install import Trouble
from course_lib.learner.merge import grade_meta, is_answer, is_check
from course_lib.learner.notebooks import Cell, Notebook, read

MAX_BYTES = 50_000_000  # a chapter with every picture in it is a tenth of this
MAX_CELLS = 2_000
STUB = "raise NotImplementedError"
_REGION = re.compile(r"^([ \t]*)[^\n]*BEGIN SOLUTION.*?END SOLUTION[^\n]*$", re.DOTALL | re.MULTILINE)
_HIDDEN = re.compile(r"^[^\n]*BEGIN HIDDEN TESTS.*?END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens when a notebook is graded, in the order of the notebook."""

    do: Literal["run", "judge"]
    exercise: str = ""  # whose answer cell this is, or what is judged now
    source: str = ""
    whose: Literal["answer", "own", "course"] = "course"
    where: str = ""  # "cell 12" of the learner's copy; "" for a cell that only the source has


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A notebook ready to be graded."""

    steps: tuple[Step, ...]
    exercises: tuple[str, ...]  # in the order of the chapter
    notes: tuple[str, ...] = ()  # what a reader should know, a sentence each
    missing: Mapping[str, str] = field(default_factory=dict)  # exercise -> why it has no answer cell


def load(path: Path) -> Notebook:
    """The notebook at `path`; Trouble in words for a link, an oversize file, broken JSON or an unfinished merge."""
    if path.is_symlink():
        raise Trouble(f"{path} is a link to another file.", "put the notebook itself there")
    if not path.exists():
        raise Trouble(f"There is no {path}.", "`./course learn` copies the chapters into work/; or give the path of a notebook")
    if not path.is_file():
        raise Trouble(f"{path} is not a file.", "give the path of a notebook (.ipynb)")
    if path.stat().st_size > MAX_BYTES:
        size = f"{path.stat().st_size / 1e6:,.0f} MB; a notebook may have {MAX_BYTES / 1e6:.0f} MB"
        raise Trouble(f"{path} has {size}.", "clear its outputs (JupyterLab: Edit → Clear Outputs of All Cells) and save")
    notebook = read(path)
    if len(notebook["cells"]) > MAX_CELLS:
        raise Trouble(f"{path} has {len(notebook['cells']):,} cells; at most {MAX_CELLS:,} are graded.", "delete the cells that you do not need")
    return notebook


def stubbed(source: str) -> str:
    """An answer cell's source as it is released: a stub in place of every solution region."""
    return _REGION.sub(lambda region: f"{region.group(1)}{STUB}", source)


def blank(source: Notebook) -> Notebook:
    """The source as an untouched release: stubs for answers, no hidden tests."""
    cells = [
        {**cell, "source": stubbed(cell["source"]) if is_answer(cell) else _HIDDEN.sub("", cell["source"])}
        for cell in source["cells"]
    ]
    return {**source, "cells": cells}


def rebuild(source: Notebook, learner: Notebook, cards: Sequence[Card]) -> Submission:
    """The learner's cells in the source's frame.

    Answer and own cells are the learner's; plain cells too where edited, the source's where deleted. Check cells are
    never run: a "judge" step stands where the learner's check cell stands, else after the answer, else at the end.
    """
    known = {card.id: card for card in cards}
    exercises = tuple(
        grade_id for cell in source["cells"] if is_answer(cell) and (grade_id := grade_meta(cell)["grade_id"]) in known
    )
    keys, notes = _matched(source, learner, exercises)
    steps, missing = _laid_out(source, learner, keys, exercises, known)
    recovered = [
        f"The answer cell of “{known[name].title}” had lost its grade_id; it was found by its cell id, so nothing is lost."
        for key, name in ((key, key.removeprefix("grade:")) for key in keys if key.startswith("grade:"))
        if name in known and _lost_grade_id(learner["cells"][keys[key]], name)
    ]
    return Submission(steps=tuple(steps), exercises=exercises, notes=(*notes, *recovered), missing=missing)


def _lost_grade_id(cell: Cell, name: str) -> bool:
    return grade_meta(cell).get("grade_id") != name


def _key(cell: Cell) -> str:
    """What identifies a cell of the source: its grade_id, else its id."""
    return f"grade:{grade_meta(cell)['grade_id']}" if grade_meta(cell) else f"id:{cell.get('id', '')}"


def _matched(source: Notebook, learner: Notebook, exercises: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Key of a source cell -> position of the learner's cell that is it, and what to say about copies."""
    order = [_key(cell) for cell in source["cells"]]
    places: dict[str, list[int]] = {}
    for position, cell in enumerate(learner["cells"]):
        if _key(cell) in set(order):
            places.setdefault(_key(cell), []).append(position)
    # An editor that drops metadata keeps the ids, and in a release an id is the grade_id.
    for key, cell in zip(order, source["cells"], strict=True):
        if key not in places:
            taken = {position for found in places.values() for position in found}
            same = [
                position for position, mine in enumerate(learner["cells"])
                if position not in taken and mine["cell_type"] == cell["cell_type"]
                and (mine.get("id") == cell.get("id") is not None or (not is_answer(cell) and mine["source"] == cell["source"]))
            ]
            if same:
                places[key] = same[:1]
    stubs = {_key(cell): stubbed(cell["source"]) for cell in source["cells"] if is_answer(cell)}
    chosen, notes = {}, []
    for key, found in places.items():
        chosen[key] = position = _the_one(key, found, order, learner["cells"], stubs)
        name = key.removeprefix("grade:")
        if len(found) > 1 and key.startswith("grade:") and name in exercises:
            others = ", ".join(str(other + 1) for other in found if other != position)
            plural = "s" if len(found) > 2 else ""
            notes.append(f"The answer cell {name!r} is there {len(found)} times: cell {position + 1} counts, the cop"
                         f"{'ies' if plural else 'y'} in cell{plural} {others} {'are' if plural else 'is'} not run.")
    return chosen, notes


def _the_one(key: str, found: list[int], order: list[str], cells: list[Cell], stubs: Mapping[str, str]) -> int:
    """Of several copies of a cell the one that counts: the first with work in it whose place in the order matches."""
    worked = [position for position in found if key not in stubs or cells[position]["source"] != stubs[key]] or found
    if len(worked) == 1:
        return worked[0]
    at = {name: index for index, name in enumerate(order)}

    def in_place(position: int) -> bool:
        before = next((at[_key(cell)] for cell in reversed(cells[:position]) if _key(cell) in at and _key(cell) != key), -1)
        after = next((at[_key(cell)] for cell in cells[position + 1:] if _key(cell) in at and _key(cell) != key), len(order))
        return before < at[key] < after

    return next((position for position in worked if in_place(position)), worked[0])


def _laid_out(
    source: Notebook, learner: Notebook, keys: Mapping[str, int], exercises: Sequence[str], known: Mapping[str, Card]
) -> tuple[list[Step], dict[str, str]]:
    """The steps in the order of the learner's copy, with the source's own cells where they were deleted."""
    by_position = {position: key for key, position in keys.items()}
    released = {_key(cell): cell for cell in source["cells"]}
    graded = set(released)
    after: dict[int, list[Step]] = {}  # position in the learner's copy, -1 for the top -> what the source puts behind it
    anchor, section, missing = -1, "", {}
    for cell in source["cells"]:
        key = _key(cell)
        if cell["cell_type"] == "markdown":
            section = next((line.lstrip("# ").strip() for line in reversed(cell["source"].splitlines())
                            if re.match(r"#{1,2} ", line)), section)
        if key in keys:
            anchor = keys[key]
        elif is_answer(cell) and key.removeprefix("grade:") in known:
            missing[key.removeprefix("grade:")] = _why_missing(known[key.removeprefix("grade:")], section)
        elif cell["cell_type"] == "code" and not is_check(cell) and not is_answer(cell):
            after.setdefault(anchor, []).append(Step(do="run", source=cell["source"]))
    steps, judged = list(after.get(-1, [])), set()
    for position, cell in enumerate(learner["cells"]):
        key = by_position.get(position, "")
        meta = grade_meta(cell)
        name = (key or _key(cell)).removeprefix("grade:")
        exercise = name if key.startswith("grade:") and name in exercises else ""
        if cell["cell_type"] == "code" and not (is_check(cell) or (is_answer(cell) and not key and f"grade:{meta['grade_id']}" in graded)):
            whose: Literal["answer", "own", "course"] = "answer" if exercise else "course" if key else "own"
            steps.append(Step(do="run", exercise=exercise, source=cell["source"], whose=whose, where=f"cell {position + 1}"))
        elif exercise:
            missing[exercise] = f"The answer cell of “{known[exercise].title}” (cell {position + 1}) is a {cell['cell_type']} " \
                                "cell now: make it a code cell again (in JupyterLab: Esc, then Y)."
        if is_check(cell) and (owner := meta["grade_id"].removesuffix(CHECK_SUFFIX)) in exercises:
            answer = keys.get(f"grade:{owner}", position)
            if owner not in judged and answer < position:
                steps.append(Step(do="judge", exercise=owner))
                judged.add(owner)
        if exercise and not _check_follows(learner["cells"], position, exercise):
            steps.append(Step(do="judge", exercise=exercise))
            judged.add(exercise)
        steps += after.get(position, [])
    steps += [Step(do="judge", exercise=exercise) for exercise in exercises if exercise not in judged]
    return steps, missing


def _check_follows(cells: Sequence[Cell], position: int, exercise: str) -> bool:
    return any(is_check(cell) and grade_meta(cell)["grade_id"] == exercise + CHECK_SUFFIX for cell in cells[position + 1:])


def _why_missing(card: Card, section: str) -> str:
    under = f" under “{section}”" if section else ""
    return (f"The answer cell of “{card.title}”{under} is missing (its grade_id {card.id!r} is in no cell). "
            f"`./course update {card.chapter}` brings the cell back and keeps the rest.")
