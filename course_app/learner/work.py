"""The work folder: released chapters copied in, and never a word of the learner's lost.

`work/.course/released/NN_name/` holds the release that each chapter was copied from, so that "did the learner change
this?" and "did the release change this?" are two comparisons of files.
"""

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from course_app.learner.history import keep
from course_app.learner.merge import Merged, merge
from course_grader import notebooks
from course_lib.folders import Folders as Folders
from course_lib.folders import folders as folders
from course_lib.folders import require
from course_lib.installation import called_here
from course_lib.messages import Trouble

_OLD = re.compile(r"\.before-\d{4}-\d{2}-\d{2}-\d{4}(-\d+)?\.ipynb$")


def find_work(start: Path | None = None) -> Path | None:
    """The work folder around `start` (by default around the current folder), None outside of one."""
    if given := os.environ.get("COURSE_WORK"):
        return Path(given) if (Path(given) / ".course").is_dir() else None
    start = (start or Path.cwd()).absolute()
    return next((folder for folder in (start, *start.parents) if (folder / ".course" / "released").is_dir()), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A released chapter, and the learner's copy of it."""

    number: str  # "01"
    name: str  # "01_three_walls": folder and file name
    release: Path  # folder in notebooks/
    base: Path  # folder of the recorded release, which may not be there
    mine: Path | None  # the learner's notebook, wherever it is; None if there is none

    @property
    def file(self) -> str:
        """Name of the notebook's file in the release."""
        return f"{self.name}.ipynb"


def chapters(where: Folders) -> list[Chapter]:
    """The released chapters in order, each with the learner's copy, found by its metadata even if it was renamed."""
    names = sorted(
        path.parent.name for path in where.root.glob("notebooks/[0-9][0-9]_*/*.ipynb") if path.stem == path.parent.name
    )
    usual = {name: where.work / name / f"{name}.ipynb" for name in names}
    found: dict[str, Path] = {}
    if not all(path.exists() for path in usual.values()):
        found = _by_metadata(where.work, set(usual.values()))
    return [
        Chapter(
            number=name[:2],
            name=name,
            release=where.root / "notebooks" / name,
            base=where.released / name,
            mine=usual[name] if usual[name].exists() else found.get(name[:2]),
        )
        for name in names
    ]


def _by_metadata(work: Path, usual: set[Path]) -> dict[str, Path]:
    """Renamed or moved notebooks by the chapter that their metadata names; of several, the one saved last."""
    found: dict[str, Path] = {}
    for path in sorted(_notebooks_in(work), key=lambda path: path.stat().st_mtime):
        if path in usual or _OLD.search(path.name):
            continue
        try:
            number = notebooks.chapter_of(notebooks.read(path))
        except Trouble:
            continue
        if number:
            found[number] = path
    return found


def _notebooks_in(folder: Path) -> Iterator[Path]:
    for top, names, files in os.walk(folder):
        names[:] = [name for name in names if not name.startswith(".")]
        yield from (Path(top) / name for name in files if name.endswith(".ipynb"))


def copy_chapters(where: Folders) -> list[str]:
    """Bring released chapters into the work folder; the value says in sentences what was done.

    A copy that nobody changed is replaced by a newer release; a changed one is kept, and a sentence names `update`.
    """
    require(where.root, "notebooks", "Opening the course")
    said = []
    where.released.mkdir(parents=True, exist_ok=True)
    note = keep(where.work, "Your work")
    for chapter in chapters(where):
        said += _copy(chapter, where)
    return said + _unless_empty(keep(where.work, "Chapters of the course") or note)


def _unless_empty(text: str) -> list[str]:
    return [text] if text else []


def _copy(chapter: Chapter, where: Folders) -> list[str]:
    if chapter.mine is None:
        _copy_files(chapter, chapter.release, where.work / chapter.name, replace=False)
        _record(chapter)
        return [f"{chapter.name}: copied"]
    new = _bytes(chapter.release / chapter.file)
    base = _bytes(chapter.base / chapter.file)
    if new == base:
        _copy_files(chapter, chapter.release, chapter.mine.parent, replace=False, notebook=False)
        return []
    try:
        mine = notebooks.read(chapter.mine)
    except Trouble as trouble:
        return [f"{chapter.name}: kept as it is: {trouble.problem}"]
    if _reads_like(mine, chapter.release / chapter.file) or (base and _reads_like(mine, chapter.base / chapter.file)):
        notebooks.write_whole(chapter.mine, new or b"")
        _copy_files(chapter, chapter.release, chapter.mine.parent, replace=True, notebook=False)
        _record(chapter)
        return [f"{chapter.name}: replaced by the newer release (you had not changed it)"]
    return [
        called_here(
            f"{chapter.name}: a newer release is here and yours is kept; `./course update {chapter.number}` brings "
            f"them together"
        )
    ]


def _reads_like(mine: notebooks.Notebook, path: Path) -> bool:
    return notebooks.same_text(mine, notebooks.read(path))


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _copy_files(chapter: Chapter, source: Path, target: Path, replace: bool, notebook: bool = True) -> None:
    """Copy a chapter's files; `replace` renews those that the learner did not change, else only missing ones come."""
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if not path.is_file() or (inside.name == chapter.file and not notebook):
            continue
        old = _bytes(target / inside)
        ours = old is not None and old == _bytes(chapter.base / inside)
        if old is None or (replace and ours and old != path.read_bytes()):
            notebooks.write_whole(target / inside, path.read_bytes())


def _record(chapter: Chapter) -> None:
    """Remember the release that the learner's copy now stands on; the notebook last, since it is what is compared."""
    for path in sorted(chapter.release.rglob("*"), key=lambda path: path.name == chapter.file):
        if path.is_file():
            notebooks.write_whole(chapter.base / path.relative_to(chapter.release), path.read_bytes())


def find_chapter(number: str, where: Folders) -> Chapter:
    """The chapter that "1", "01" or "01_three_walls" names; Trouble lists what there is."""
    require(where.root, "notebooks", f"Chapter {number}")
    known = chapters(where)
    wanted = number.strip("/").split("/")[-1].removesuffix(".ipynb")
    wanted = wanted.zfill(2) if wanted.isdigit() else wanted
    for chapter in known:
        if wanted in (chapter.number, chapter.name):
            return chapter
    raise Trouble(f"There is no chapter {number!r}.", f"name one of {', '.join(c.name for c in known)}")


def newer(where: Folders) -> list[Chapter]:
    """The chapters whose release is newer than what the learner's copy stands on."""
    return [c for c in chapters(where) if c.mine and _bytes(c.release / c.file) != _bytes(c.base / c.file)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """What an update did."""

    chapter: str
    merged: Merged | None  # None where there was nothing newer
    path: Path | None = None
    old: Path | None = None  # where the file as it was now stands
    note: str = ""


def update(number: str, where: Folders, now: time.struct_time | None = None) -> Updated:
    """Rebuild the learner's copy from the newer release with their answers and own cells in it; keep the old file."""
    chapter = find_chapter(number, where)
    if chapter.mine is None:
        raise Trouble(f"{chapter.name} is not in {where.work} yet.", "`./course learn` copies it there")
    new_file, base_file = chapter.release / chapter.file, chapter.base / chapter.file
    mine = notebooks.read(chapter.mine)
    if _bytes(new_file) == _bytes(base_file):
        return Updated(chapter=chapter.name, merged=None, path=chapter.mine)
    base = notebooks.read(base_file) if base_file.is_file() else None
    merged = merge(base, notebooks.read(new_file), mine)
    note = keep(where.work, f"Your work before the update of {chapter.name}")
    old = _dated(chapter.mine, now or time.localtime())
    notebooks.write_whole(old, chapter.mine.read_bytes())
    notebooks.write_whole(chapter.mine, notebooks.render(merged.notebook))
    _copy_files(chapter, chapter.release, chapter.mine.parent, replace=True, notebook=False)
    _record(chapter)
    note = keep(where.work, f"{chapter.name} updated") or note
    return Updated(chapter=chapter.name, merged=merged, path=chapter.mine, old=old, note=note)


def _dated(path: Path, now: time.struct_time) -> Path:
    """A name beside `path` that nothing has yet, with the time in it."""
    stem = f"{path.stem}.before-{time.strftime('%Y-%m-%d-%H%M', now)}"
    candidates = (path.with_name(f"{stem}{f'-{turn}' if turn else ''}.ipynb") for turn in range(1000))
    return next(each for each in candidates if not each.exists())
