"""Collect one student's files: which notebook belongs to which chapter, which of several is newest, and which files go
with it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import AGAIN, Label, Times, again, is_notebook
from course_grader.classroom.roster import Student
from course_grader.classroom.store_submission import Candidate, Taken, put
from course_grader.classroom.unpack import Heap, Piece, Refused, each_with_archives
from course_grader.clean_text import clean
from course_grader.exercises import VARIANT_FILE
from course_grader.notebooks import Notebook, chapter_of
from course_lib.messages import Trouble

_BESIDE_FILES, _BESIDE_BYTES = 200, 20_000_000  # files that may accompany a notebook
_OURS = (
    VARIANT_FILE,
    "timestamp.txt",
    "nbgrader_config.py",
    "receipt.json",
)  # written by us, or not for learners to write
Parse = Callable[[bytes], Notebook]


@dataclass(kw_only=True)
class Collected:
    """The result of collecting."""

    taken: list[Taken] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)  # a line each: no known student or chapter
    refused: list[str] = field(default_factory=list)  # a line each: links, bombs, floods, broken archives
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if every file was assigned."""
        return 1 if self.unmatched or self.refused else 0


def collect_student(
    folder: ClassFolder,
    student: Student,
    found: Sequence[tuple[Piece, Label]],
    chapter: str,
    when: tuple[datetime | None, Times | None, datetime],
    parse: Parse,
    done: Collected,
    heap: Heap,
) -> None:
    """Store one student's files."""
    room = Heap()
    files = list(_files(found, room))
    candidates = [_candidate(folder, name, said, data, parse) for name, said, data in files if is_notebook(name)]
    for wanted, ours in sorted(_by_chapter(folder, candidates, chapter, done).items()):
        chosen = _newest(folder, wanted, ours, done)
        if chosen is not None:
            done.taken.append(put(folder, student, wanted, chosen, _beside(chosen, files), when))
    if not candidates and not room.refused:
        done.unmatched.append(f"{clean(found[0][0].name, 200)}: {student.id} handed in no notebook (.ipynb)")
    heap.refused += room.refused


def _files(found: Sequence[tuple[Piece, Label]], room: Heap) -> Iterator[tuple[str, Label, bytes]]:
    """Path, label and bytes of each file of one person, including those in zips. Besides notebooks, only a few small
    files.
    """
    count = total = 0
    for piece, said in found:
        for each in each_with_archives(Heap(pieces=[piece], refused=room.refused), lambda piece: _read(piece, room)):
            name = said.inside if each is piece else each.name.removeprefix(f"{piece.name}/")
            if not is_notebook(each.name):
                count, total = count + 1, total + each.size
                if count > _BESIDE_FILES or total > _BESIDE_BYTES:
                    room.refuse(
                        each.name,
                        f"more than {_BESIDE_FILES} files or {_BESIDE_BYTES / 1e6:.0f} MB beside the notebook",
                    )
                    continue
            if (data := _read(each, room)) is not None:
                yield name, replace(said, inside=name), data


def _read(piece: Piece, heap: Heap) -> bytes | None:
    try:
        return piece.read()
    except Refused as refused:
        heap.refused.append(str(refused))
        return None


def _candidate(folder: ClassFolder, name: str, said: Label, data: bytes, parse: Parse) -> Candidate:
    """A notebook and its chapter, as far as known. A broken notebook does not affect others."""
    chapter = why = ""
    try:
        chapter = _chapter_of(folder, name, parse(data))
    except Trouble as trouble:
        why = clean(trouble.problem, 300).rstrip(".")
    except Exception as error:
        why = f"its form is not a notebook's ({type(error).__name__})"
    if why:  # only its name can tell
        chapter = next(
            (
                each
                for each in folder.settings.chapters()
                if PurePosixPath(name).name.startswith(folder.settings.assignment(each))
            ),
            "",
        )
    return Candidate(label=said, name=name, data=data, chapter=chapter, why=why)


def _chapter_of(folder: ClassFolder, name: str, notebook: Notebook) -> str:
    from course_grader.course_notebooks import chapter_by_content

    if re.fullmatch(r"\d\d", said := chapter_of(notebook)):
        return said
    try:
        known = {chapter: folder.sources.path(chapter) for chapter in folder.settings.chapters()}
        return chapter_by_content(notebook, Path(PurePosixPath(name).name), known)
    except Trouble:
        return ""


def _by_chapter(
    folder: ClassFolder, candidates: Sequence[Candidate], chapter: str, done: Collected
) -> dict[str, list[Candidate]]:
    """The notebooks by chapter. One that does not say belongs to the requested chapter, if it is the only one."""
    found: dict[str, list[Candidate]] = defaultdict(list)
    for each in candidates:
        if each.chapter and each.chapter in folder.settings.chapters() and chapter in ("", each.chapter):
            found[each.chapter].append(each)
    silent = [each for each in candidates if not each.chapter]
    for each in candidates:
        who = clean(each.label.who, 80)
        if each.chapter and chapter and each.chapter != chapter and not found:
            done.unmatched.append(
                f"{clean(each.name, 120)} of {who}: a notebook of chapter {each.chapter}, not {chapter}"
            )
        elif each.chapter and each.chapter not in folder.settings.chapters():
            done.unmatched.append(f"{clean(each.name, 120)} of {who}: chapter {each.chapter} is not in this class")
    if silent and not found and chapter:
        found[chapter] = silent
    elif silent and not found:
        done.unmatched += [
            f"{clean(each.name, 120)} of {clean(each.label.who, 80)}: "
            f"{each.why or 'it does not say which chapter it is'}; use --chapter to say which"
            for each in silent
        ]
    return found


def _newest(folder: ClassFolder, chapter: str, ours: Sequence[Candidate], done: Collected) -> Candidate | None:
    """The one that counts: by the LMS's numbers, else by the number in its name, else the one with the regular name."""
    name = f"{folder.settings.assignment(chapter)}.ipynb"

    def rank(each: Candidate) -> tuple[object, ...]:
        return (
            *each.label.order[:1],
            again(PurePosixPath(each.name).stem),
            PurePosixPath(each.name).name == name,
            not each.why,
        )

    best = max(ours, key=rank)
    same = [each for each in ours if rank(each) == rank(best) and each.data != best.data]
    if same:
        names = " and ".join(clean(each.name, 80) for each in (best, *same))
        done.refused.append(
            f"{clean(best.label.who, 80)}: {names} are both chapter {chapter}, and it is unclear which counts; "
            f"collect one by itself: class collect FILE --student ID --chapter {chapter}"
        )
        return None
    if len({AGAIN.sub("", PurePosixPath(each.name).stem) for each in ours}) > 1:
        others = ", ".join(clean(each.name, 80) for each in ours if each is not best)
        done.notes.append(
            f"{clean(best.label.who, 80)} handed in several notebooks of chapter {chapter}: {clean(best.name, 80)} "
            f"counts, {others} not"
        )
    return best


def _beside(chosen: Candidate, files: Iterable[tuple[str, Label, bytes]]) -> dict[str, bytes]:
    """The files that came with the notebook, by their path relative to its folder."""
    here = PurePosixPath(chosen.name).parent
    beside = {}
    for name, _, data in files:
        path = PurePosixPath(name)
        if not is_notebook(name) and path.is_relative_to(here) and path.name not in _OURS:
            beside[path.relative_to(here).as_posix()] = data
    return beside
