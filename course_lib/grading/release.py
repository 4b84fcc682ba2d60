"""`course release`: `solutions/` becomes `notebooks/` through nbgrader's own converter, with our steps around its own.

The steps are listed in `nbgrader_config.py`, so formgrader's Generate button runs the same ones and gives the same bytes.
"""

import json
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode, from_dict
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from course_lib import exercises
from course_lib.exercises.placeholders import PLACEHOLDER, chapter_values, fill_text
from course_lib.grading.committed_form import tidy, tidy_text
from course_lib.grading.judge.exercise import CONTRACT_VERSION
from course_lib.install import Trouble
from course_lib.learner.merge import grade_meta, is_answer
from course_lib.learner.notebooks import Notebook, parse, write_whole

ROOT = Path(__file__).resolve().parents[2]
CANONICAL = "canonical"
# Assembled, so that this file itself never looks like a notebook that lost its markers.
MARKERS = tuple(f"{edge} {what}" for what in ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME") for edge in ("BEGIN", "END"))
_LEAVES = (".ipynb_checkpoints", "__pycache__")  # what editors leave behind, never released


# ------------------------------------------------------------------------------------------------ steps, as functions


def chapter_of(assignment: str) -> str:
    """The two digits that a chapter's folder begins with: "01_the_first_wall" -> "01"."""
    chapter = assignment.split("_", 1)[0]
    if not (len(chapter) == 2 and chapter.isdigit()):
        raise ValueError(f"A chapter's folder is named like 01_name; {assignment!r} is not.")
    return chapter


def points_of(chapter: str) -> dict[str, int]:
    """Exercise id -> points, from the chapter's cards."""
    return {card.id: card.points for card in exercises.cards(chapter)}


def fill(
    notebook: Notebook, chapter: str, variant: Mapping[str, Any] | None = None, cards: Sequence[exercises.Card] = ()
) -> Notebook:
    """The notebook with every placeholder in its Markdown filled; ValueError names the cell of one without a value.

    `variant` is a variant file's data: {"id": …, "exercises": {exercise: {parameter: value}}}; canonical without one.
    `cards` stand in the place of the course's with the same ids.
    """
    chosen = variant or {}
    values = chapter_values(chapter, _variant_params(chosen), cards)
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            try:
                cell = {**cell, "source": keep_dollars(fill_text(cell["source"], values))}
            except ValueError as error:
                said = str(error)
                if "has no value" in said:  # the list of all that has one is longer than a screen
                    said = (
                        f"{said.split(';')[0]}; write id.param of a card, or {chapter}.name of the chapter's NUMBERS."
                    )
                raise ValueError(f"Cell {cell.get('id', '?')!r}: {said}") from error
        cells.append(cell)
    course = {"chapter": chapter, "contract": CONTRACT_VERSION, "variant": chosen.get("id", CANONICAL)}
    return {**notebook, "cells": cells, "metadata": {**notebook["metadata"], "course": course}}


def keep_dollars(markdown: str) -> str:
    """Markdown in which an escaped dollar stays one on every page.

    JupyterLab drops the backslash before it looks for formulas, so "\\$2 to \\$3" would be set as mathematics; a dollar alone
    in an element of its own is not.
    """
    return markdown.replace("\\$", "<span>\\$</span>")


def _variant_params(variant: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """A card's whole parameters for each exercise that the variant changes."""
    given = variant.get("exercises", {})
    return {name: {**exercises.card(name).params, **values} for name, values in given.items()}


def check_folder(folder: Path) -> None:
    """ValueError names what must not lie in a chapter's folder: nbgrader copies every other file into the release."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_dir() or any(part in _LEAVES for part in inside.parts):
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
    """ValueError names the cell whose regions are not closed or stand in a cell of the wrong kind, or whose id is taken."""
    seen: set[str] = set()
    for cell in notebook["cells"]:
        meta, name = grade_meta(cell), cell.get("id", "?")
        if meta and meta["grade_id"] in seen:
            raise ValueError(
                f"Cell {name!r}: its grade_id {meta['grade_id']!r} stands in an earlier cell too; give it another."
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
    """ValueError names the cell in which an answer, a hidden test, the judging or an output is left."""
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


# ------------------------------------------------------------------------------------------------ steps, for nbgrader


def _as_plain(nb: NotebookNode) -> Notebook:
    return json.loads(json.dumps(nb))


class Tidy(NbGraderPreprocessor):
    """First step: ids, metadata and points in their committed form, outputs gone, nothing else in the folder."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The tidied notebook."""
        chapter = chapter_of(resources["nbgrader"]["assignment"])
        check_folder(Path(resources["metadata"]["path"]))
        return from_dict(tidy(_as_plain(nb), chapter, points_of(chapter))), resources


class FillPlaceholders(NbGraderPreprocessor):
    """Second step: the numbers of the variant in place of `{{…}}`."""

    variant = Unicode("", help="A variant file (JSON); the canonical numbers without one.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The notebook with readable prose, and the variant's name in its metadata."""
        chosen = json.loads(Path(self.variant).read_text(encoding="utf-8")) if self.variant else None
        return from_dict(fill(_as_plain(nb), chapter_of(resources["nbgrader"]["assignment"]), chosen)), resources


class CheckRelease(NbGraderPreprocessor):
    """Last step: nothing that a learner must not see is left."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        """The notebook as it came, or an error that names the cell."""
        check_release(_as_plain(nb))
        return nb, resources


# ------------------------------------------------------------------------------------------------ the command


def source_folders(root: Path = ROOT) -> list[Path]:
    """The chapters' folders in `solutions/`, in order: those that hold a notebook."""
    return sorted({path.parent for path in (root / "solutions").glob("[0-9][0-9]_*/*.ipynb")})


def tidied_sources(root: Path = ROOT) -> dict[Path, str]:
    """Path of every source notebook -> its text in the committed form; Trouble or ValueError names a file it cannot read."""
    texts = {}
    for folder in source_folders(root):
        check_folder(folder)
        chapter = chapter_of(folder.name)
        for path in sorted(folder.glob("*.ipynb")):
            text = path.read_text(encoding="utf-8")
            name = f"{folder.name}/{path.name}"
            texts[path] = tidy_text(text, chapter, points_of(chapter), name)
            try:  # what nbgrader would say of these names no cell
                check_source(parse(text))
                fill(parse(texts[path]), chapter)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    return texts


def released(root: Path = ROOT, variant: Path | None = None) -> dict[str, bytes]:
    """What `notebooks/` should hold: path below it -> bytes. Runs in a folder of its own; nothing of `root` changes."""
    sources = tidied_sources(root)
    with tempfile.TemporaryDirectory(prefix="course-release-") as scratch:
        stage = Path(scratch).resolve()
        for folder in source_folders(root):
            target = stage / "solutions" / folder.name
            target.mkdir(parents=True)
            for path in sorted(folder.glob("*.ipynb")):
                (target / path.name).write_text(sources[path], encoding="utf-8")
            if (folder / "figures").is_dir():
                shutil.copytree(folder / "figures", target / "figures", ignore=shutil.ignore_patterns(*_LEAVES))
        for folder in source_folders(root):
            _convert(root, stage, folder.name, variant)
        made = stage / "notebooks"
        return {str(path.relative_to(made).as_posix()): path.read_bytes() for path in _files(made)}


def _convert(root: Path, stage: Path, assignment: str, variant: Path | None) -> None:
    """Run nbgrader's generate_assignment, as `root`'s configuration says, on the sources below `stage`."""
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(stage)
    config.CourseDirectory.db_url = "sqlite://"
    if variant is not None:
        config.FillPlaceholders.variant = str(variant)
    generate(config, assignment, database=False)


def generate(config: Any, assignment: str, *, database: bool) -> None:
    """Run nbgrader's generate_assignment as its configuration says; ValueError with its own last words where it fails.

    Without `database` the gradebook, which belongs to whoever grades, is left alone: its step changes no byte of a notebook.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells

    if not database:
        steps = config.GenerateAssignment.preprocessors
        config.GenerateAssignment.preprocessors = [step for step in steps if step is not SaveCells]
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = assignment
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.no_database = not database
    converter.force = True
    with _quiet(converter.log) as said:
        try:
            converter.start()
        except NbGraderException as error:
            reason = next((line for line in reversed(said) if "Error: " in line.splitlines()[-1]), str(error))
            raise ValueError(f"{assignment} cannot be released: {reason.splitlines()[-1]}") from error


class _quiet:
    """A logger's messages as a list instead of on the screen, while open."""

    def __init__(self, log: logging.Logger) -> None:
        self.log, self.said = log, []

    def __enter__(self) -> list[str]:
        handler = logging.Handler()
        handler.emit = lambda record: self.said.append(record.getMessage().strip() or "-")  # type: ignore[method-assign]
        self.before = self.log.handlers, self.log.propagate, self.log.level
        self.log.handlers, self.log.propagate = [handler], False
        return self.said

    def __exit__(self, *_: object) -> None:
        self.log.handlers, self.log.propagate, self.log.level = self.before


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in order, without what editors leave there."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not any(part in _LEAVES for part in path.relative_to(folder).parts):
            yield path


def release_main(check: bool = False, root: Path = ROOT) -> int:
    """Tidy `solutions/` and make `notebooks/` from it; with `check`, change nothing and return 1 if anything would."""
    try:
        sources = tidied_sources(root)
        wanted = released(root)
    except (ValueError, Trouble) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    changes = []
    for path, text in sources.items():
        if path.read_text(encoding="utf-8") != text:
            changes.append(f"solutions/{path.parent.name}/{path.name}: tidied")
            if not check:
                write_whole(path, text)
    notebooks = root / "notebooks"
    present = {str(path.relative_to(notebooks).as_posix()): path for path in _files(notebooks)}
    for name, data in wanted.items():
        if name not in present or present[name].read_bytes() != data:
            changes.append(f"notebooks/{name}: {'changed' if name in present else 'new'}")
            if not check:
                write_whole(notebooks / name, data)
    for name in sorted(present.keys() - wanted.keys() - {".gitkeep"}):
        changes.append(f"notebooks/{name}: removed, nothing in solutions/ makes it")
        if not check:
            present[name].unlink()
            _remove_empty(present[name].parent, notebooks)
    for line in changes:
        print(line)
    count = sum(name.endswith(".ipynb") for name in wanted)
    state = "up to date" if not changes else "out of date; run `./course release`" if check else "released"
    print(f"{count} chapter{'' if count == 1 else 's'}: {state}.")
    return 1 if check and changes else 0


def _remove_empty(folder: Path, stop: Path) -> None:
    while folder != stop and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
