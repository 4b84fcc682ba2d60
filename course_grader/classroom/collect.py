"""`class collect`: put what was handed in into `submitted/<student>/<chapter>/`, with a record of when it arrived.

Nothing of a submission runs here, and nothing that it says about itself is trusted: no time, number or name.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from course_grader.classroom.collect_student import Collected, Parse, collect_student
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.lms import Label, Times, Who, label, scheme_of
from course_grader.classroom.roster import Student
from course_grader.classroom.unpack import Piece, unpack
from course_grader.clean_text import clean
from course_lib.messages import Trouble

Say = Callable[[str], None]


def collect(
    folder: ClassFolder,
    source: Path,
    *,
    chapter: str = "",
    student: str = "",
    at: datetime | None = None,
    times: Times | None = None,
    parse: Parse | None = None,
    labels: Mapping[str, Label] | None = None,
    now: datetime | None = None,
    say: Say = lambda line: None,
) -> Collected:
    """Take submissions from a folder, a zip or a notebook. `chapter` and `student` supply what the files do not say.

    `times` is the LMS's table of times; `at` is one time for all, from the instructor. Without either, work that the
    LMS does not mark late counts as in time. `labels` says whose each top folder is, where that is known better than
    from names.
    """
    now = now or datetime.now().astimezone()
    if chapter:
        folder.settings.chapter(chapter)
    done = Collected()
    heap = unpack(source)
    if labels is None and not heap.pieces and not heap.refused:
        raise Trouble(
            f"There is no file in {source}.", "download the submissions again, or give the folder that holds them"
        )
    if student:
        mine = [(piece, Label(by="instructor", who=student, inside=piece.name)) for piece in heap.pieces]
        by_student = {folder.roster.student(student).id: mine}
    else:
        by_person = _by_person(_without_wrapping(heap.pieces, folder), labels)
        by_student = _by_student(by_person, Who(folder.roster.students(), times.users if times else None), done)
    with ExitStack() as stack:
        parse = parse or stack.enter_context(_Parsing())
        stack.callback(folder.submissions.save_arrivals)
        for ident, found in by_student.items():
            collect_student(folder, folder.roster.student(ident), found, chapter, (at, times, now), parse, done, heap)
            say(ident)
    done.refused = [*heap.refused, *done.refused]
    if (
        at is None
        and times is None
        and any(taken.at <= now and not taken.late and taken.state in ("new", "newer") for taken in done.taken)
    ):
        done.notes.append(
            "No arrival times were given, so work that is not marked late counts as in time; give --times TABLE or "
            "--at TIME to change that."
        )
    return done


def _by_person(pieces: Sequence[Piece], labels: Mapping[str, Label] | None) -> dict[str, list[tuple[Piece, Label]]]:
    """Each person's files. Files that match no naming scheme are taken one by one."""
    by = scheme_of([piece.name for piece in pieces])
    people: dict[str, list[tuple[Piece, Label]]] = defaultdict(list)
    for piece in pieces:
        if labels is not None:
            top, _, rest = piece.name.partition("/")
            said = replace(labels[top], inside=rest) if top in labels else None
        else:
            said = label(piece.name, by)
            if said is None and by == "moodle" and "_assignsubmission_onlinetext_" in piece.name:
                continue  # the text of an LMS's text box, not a notebook
        people[said.person if said else f"\0{piece.name}"].append(
            (piece, said or Label(by=by, who=piece.name, inside=piece.name))
        )
    return people


def _by_student(
    by_person: Mapping[str, list[tuple[Piece, Label]]], who: Who, done: Collected
) -> dict[str, list[tuple[Piece, Label]]]:
    """The same by student of the roster, with a line for each person who is not in it."""
    by_student: dict[str, list[tuple[Piece, Label]]] = defaultdict(list)
    for found in by_person.values():
        student = who.find(found[0][1])
        if isinstance(student, Student):
            by_student[student.id] += found
            said = found[0][1]
            if said.by == "canvas" and not who.is_called(student, said.who):
                done.notes.append(
                    f"{clean(said.who, 80)} is in Canvas's name for {student.id}'s work: where that is a group, "
                    "its other members' is the same (collect FILE --student ID)"
                )
        else:
            done.unmatched.append(f"{clean(found[0][0].name, 200)}: {student}")
    return by_student


def _without_wrapping(pieces: Sequence[Piece], folder: ClassFolder) -> Sequence[Piece]:
    """The pieces without a common outer folder, such as `submissions/`."""
    tops = {piece.path.parts[0] for piece in pieces}
    names = [piece.name for piece in pieces]
    if len(tops) != 1 or any(len(piece.path.parts) == 1 for piece in pieces) or scheme_of(names) != "folder":
        return pieces
    top = tops.pop()
    if isinstance(Who(folder.roster.students()).find(Label(by="folder", who=top)), Student):
        return pieces
    return [replace(piece, name=piece.name.partition("/")[2]) for piece in pieces]


class _Parsing:
    """Reads untrusted notebooks in a child with limits."""

    def __enter__(self) -> Parse:
        from course_grader.worker.worker_pool import WorkerPool

        self.workers = WorkerPool()
        self.workers.__enter__()
        try:
            self.workers.intake(b'{"cells": [], "metadata": {}}')  # if no notebook can be read, the machine is at fault
        except BaseException:
            self.workers.__exit__()
            raise
        return self.workers.intake

    def __exit__(self, *error: object) -> None:
        self.workers.__exit__(*error)
