"""The steps of a release, as functions and as nbgrader preprocessors: fill placeholders, and check that nothing secret
is left.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode, from_dict
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    IncludeHeaderFooter,
    InstantiateTests,
    LockCells,
    NbGraderPreprocessor,
    SaveCells,
)
from nbgrader.utils import compute_checksum
from traitlets import Unicode

from course_grader import exercises
from course_grader.blank_notebook import with_values
from course_grader.committed_form import tidy
from course_grader.exercises.placeholders import PLACEHOLDER, chapter_values, fill_text, keep_dollars
from course_grader.judge.exercise import CONTRACT_VERSION
from course_grader.notebooks import Cell, Notebook, grade_meta, is_answer

NBGRADER_STEPS = (  # nbgrader's own, in its order
    IncludeHeaderFooter,
    InstantiateTests,
    LockCells,
    ClearSolutions,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
)
CANONICAL = "canonical"
# Assembled, so that this file itself never looks like a notebook that lost its markers.
MARKERS = tuple(f"{edge} {what}" for what in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME") for edge in ("BEGIN", "END"))
LEAVES = (".ipynb_checkpoints", "__pycache__")  # what editors leave behind, never released


def chapter_of(assignment: str) -> str:
    """The two digits at the start of a chapter's folder: "01_the_first_wall" -> "01"."""
    chapter = assignment.split("_", 1)[0]
    if not (len(chapter) == 2 and chapter.isdigit()):
        raise ValueError(f"A chapter's folder is named like 01_name; {assignment!r} is not.")
    return chapter


def points_of(chapter: str) -> dict[str, float]:
    """Exercise id -> points, from the chapter's cards."""
    return {card.id: card.points for card in exercises.cards(chapter)}


def fill(
    notebook: Notebook, chapter: str, variant: exercises.Variant | None = None, cards: Sequence[exercises.Card] = ()
) -> Notebook:
    """The notebook with all placeholders in its Markdown and all parameters in its answer cells filled. ValueError
    names the cell of a placeholder without a value.

    `variant` is a variant file's data; canonical without one.
    `cards` replace the course's cards with the same ids.
    """
    chosen: exercises.Variant = variant or {}
    changed = _variant_params(chosen)
    values = chapter_values(chapter, changed, cards)
    canonical = {card.id: card.params for card in (*exercises.cards(chapter), *cards)}
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            try:
                cell = {**cell, "source": keep_dollars(fill_text(cell["source"], values))}
            except ValueError as error:
                said = str(error)
                if "has no value" in said:  # the full list is longer than a screen
                    said = (
                        f"{said.split(';')[0]}; write id.param of a card, or {chapter}.name of the chapter's NUMBERS."
                    )
                raise ValueError(f"Cell {cell.get('id', '?')!r}: {said}") from error
        elif is_answer(cell):
            source = with_values(cell["source"], lambda name: changed.get(name, canonical.get(name, {})))
            cell = _with_source(cell, source)
        cells.append(cell)
    course = {"chapter": chapter, "contract": CONTRACT_VERSION, "variant": chosen.get("id", CANONICAL)}
    return {**notebook, "cells": cells, "metadata": {**notebook["metadata"], "course": course}}


def _with_source(cell: Cell, source: str) -> Cell:
    """The cell with another source, and nbgrader's checksum updated if it has one: the checksum distinguishes an answer
    from a stub.
    """
    meta = grade_meta(cell)
    changed = {**cell, "source": source}
    if "checksum" not in meta:
        return changed
    own = {**meta, "checksum": compute_checksum(from_dict(changed))}
    return {**changed, "metadata": {**cell["metadata"], "nbgrader": own}}


def _variant_params(variant: exercises.Variant) -> dict[str, exercises.Params]:
    """The complete parameters of each exercise that the variant changes."""
    given = variant.get("exercises", {})
    return {name: {**exercises.card(name).params, **values} for name, values in given.items()}


def check_folder(folder: Path) -> None:
    """ValueError names files that must not be in a chapter's folder, because nbgrader would copy them into the
    release."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_dir() or any(part in LEAVES for part in inside.parts):
            continue
        if (
            not (inside.parts[0] == "figures" or (len(inside.parts) == 1 and path.suffix == ".ipynb"))
            or path.is_symlink()
        ):
            raise ValueError(
                f"{folder.name}/{inside} would be released with the chapter; only notebooks and figures/ "
                "may stand there. Move it out of solutions/."
            )


def check_source(notebook: Notebook) -> None:
    """ValueError names a cell whose regions are not closed or are in the wrong kind of cell, or whose id is taken."""
    seen: set[str] = set()
    for cell in notebook["cells"]:
        meta, name = grade_meta(cell), cell.get("id", "?")
        if meta and meta["grade_id"] in seen:
            raise ValueError(
                f"Cell {name!r}: its grade_id {meta['grade_id']!r} is in an earlier cell too; give it another."
            )
        seen.add(meta.get("grade_id", ""))
        for what, wanted in (("SOLUTION", "solution"), ("HIDDEN TESTS", "grade")):
            marks = re.findall(rf"(BEGIN|END) {what}", cell["source"])
            if marks != ["BEGIN", "END"] * (len(marks) // 2):
                raise ValueError(f"Cell {name!r}: its {what} regions are not a BEGIN and an END in turn: {marks}.")
            if marks and not meta.get(wanted):
                raise ValueError(
                    f"Cell {name!r} holds a region {what}, but its nbgrader metadata does not say {wanted}: true."
                )
        if is_answer(cell) and "BEGIN SOLUTION" not in cell["source"]:
            raise ValueError(
                f"Cell {name!r} is an answer without a SOLUTION region: its docstrings would be cut with the answer."
            )


def check_release(notebook: Notebook) -> None:
    """ValueError names a cell in which an answer, a hidden test, judging code or an output is left."""
    for cell in notebook["cells"]:
        name = cell.get("id", "?")
        for marker in MARKERS:
            if marker in cell["source"]:
                raise ValueError(
                    f"Cell {name!r} still holds {marker!r} after the release; mend the region in the source."
                )
        if cell["cell_type"] == "code" and ("judging" in cell["source"] or ".judges" in cell["source"]):
            raise ValueError(f"Cell {name!r} names the judging package; a chapter must not reach it.")
        if cell.get("outputs"):
            raise ValueError(f"Cell {name!r} holds outputs; a release has none.")
        if cell["cell_type"] == "markdown" and (left := PLACEHOLDER.search(cell["source"])):
            raise ValueError(f"Cell {name!r} still holds the placeholder {left.group(0)!r}.")


def _as_plain(nb: NotebookNode) -> Notebook:
    return json.loads(json.dumps(nb))


class Tidy(NbGraderPreprocessor):
    """First step: ids, metadata and points in their committed form, no outputs, nothing else in the folder."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The tidied notebook."""
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        check_folder(Path(resources["metadata"]["path"]))
        return from_dict(tidy(_as_plain(nb), chapter, points_of(chapter))), resources


class FillPlaceholders(NbGraderPreprocessor):
    """Second step: the variant's numbers in place of `{{…}}`."""

    variant = Unicode("", help="A variant file (JSON); the canonical numbers without one.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The notebook with readable prose, and the variant's name in its metadata."""
        chosen = json.loads(Path(self.variant).read_text(encoding="utf-8")) if self.variant else None
        return from_dict(fill(_as_plain(nb), chapter_of(resources["nbgrader"]["assignment"]), chosen)), resources


class CheckRelease(NbGraderPreprocessor):
    """Last step: check that nothing is left that a learner must not see."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """The unchanged notebook, or an error that names the cell."""
        check_release(_as_plain(nb))
        return nb, resources
