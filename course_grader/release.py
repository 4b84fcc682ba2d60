"""`course release`: `solutions/` becomes `notebooks/` through nbgrader's converter, with our steps before and after its
own.

The steps are listed in `nbgrader_config.py`, so that formgrader's Generate button runs the same ones and gives the same
bytes.
"""

import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from traitlets.config import Config

from course_grader import exercises
from course_grader.bank.answer_bank import worked_cell
from course_grader.committed_form import tidy_text
from course_grader.judging.shipped import answers_text
from course_grader.notebooks import parse, write_whole
from course_grader.release_steps import LEAVES, chapter_of, check_folder, check_source, fill, points_of
from course_lib.folders import ROOT
from course_lib.messages import Trouble, count_text


def source_folders(root: Path = ROOT) -> list[Path]:
    """The folders in `solutions/` that contain a notebook, in order."""
    return sorted({path.parent for path in (root / "solutions").glob("[0-9][0-9]_*/*.ipynb")})


def tidied_sources(root: Path = ROOT) -> dict[Path, str]:
    """Path of every source notebook -> its text in the committed form; Trouble or ValueError names a file that cannot
    be read.
    """
    texts = {}
    for folder in source_folders(root):
        check_folder(folder)
        chapter = chapter_of(folder.name)
        worked = _worked_cells(chapter) if root == ROOT else {}
        for path in sorted(folder.glob("*.ipynb")):
            text = path.read_text(encoding="utf-8")
            name = f"{folder.name}/{path.name}"
            texts[path] = tidy_text(text, chapter, points_of(chapter), name, worked)
            try:  # what nbgrader would say of these names no cell
                check_source(parse(text))
                fill(parse(texts[path]), chapter)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    return texts


def _worked_cells(chapter: str) -> dict[str, str]:
    """The answer cells of a chapter, as its exercises say them."""
    texts = {card.id: worked_cell(answers_text(card.id)) for card in exercises.cards(chapter)}
    return {name: cell for name, cell in texts.items() if cell is not None}


def released(root: Path = ROOT, variant: Path | None = None) -> dict[str, bytes]:
    """What `notebooks/` should contain: relative path -> bytes. Works in a temporary folder; nothing in `root`
    changes."""
    return _made(root, tidied_sources(root), variant)


def _made(root: Path, sources: Mapping[Path, str], variant: Path | None = None) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="course-release-") as scratch:
        stage = Path(scratch).resolve()
        for folder in source_folders(root):
            target = stage / "solutions" / folder.name
            target.mkdir(parents=True)
            for path in sorted(folder.glob("*.ipynb")):
                (target / path.name).write_text(sources[path], encoding="utf-8")
            if (folder / "figures").is_dir():
                shutil.copytree(folder / "figures", target / "figures", ignore=shutil.ignore_patterns(*LEAVES))
        for folder in source_folders(root):
            _convert(root, stage, folder.name, variant)
        made = stage / "notebooks"
        return {str(path.relative_to(made).as_posix()): path.read_bytes() for path in _files(made)}


def _convert(root: Path, stage: Path, assignment: str, variant: Path | None) -> None:
    """Run nbgrader's generate_assignment on the sources below `stage`, with `root`'s configuration."""
    from traitlets.config import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    config.CourseDirectory.root = str(stage)
    config.CourseDirectory.db_url = "sqlite://"
    if variant is not None:
        config.FillPlaceholders.variant = str(variant)
    generate(config, assignment, database=False)


def generate(config: Config, assignment: str, *, database: bool) -> None:
    """Run nbgrader's generate_assignment as configured; ValueError with nbgrader's last message if it fails.

    Without `database` the gradebook is left alone: that step changes no byte of a notebook.
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
    """Collect a logger's messages in a list instead of showing them."""

    def __init__(self, log: logging.Logger) -> None:
        self.log = log
        self.said: list[str] = []

    def __enter__(self) -> list[str]:
        handler = logging.Handler()
        handler.emit = lambda record: self.said.append(record.getMessage().strip() or "-")  # type: ignore[method-assign]
        self.before = self.log.handlers, self.log.propagate, self.log.level
        self.log.handlers, self.log.propagate = [handler], False
        return self.said

    def __exit__(self, *_: object) -> None:
        self.log.handlers, self.log.propagate, self.log.level = self.before


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in order, without editors' leftovers."""
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not any(part in LEAVES for part in path.relative_to(folder).parts):
            yield path


def release_main(check: bool = False, root: Path = ROOT) -> int:
    """Tidy `solutions/` and write `notebooks/`. With `check`, change nothing and return 1 if anything would change."""
    try:
        sources = tidied_sources(root)
        wanted = _made(root, sources)
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
    print(f"{count_text(count, 'chapter')}: {state}.")
    return 1 if check and changes else 0


def _remove_empty(folder: Path, stop: Path) -> None:
    while folder != stop and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
