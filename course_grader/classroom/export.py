"""Export grades from the gradebook in the formats that Canvas, Moodle and spreadsheets import."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_grader.classroom.roster import Student
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.notebooks import write_whole
from course_grader.service.report_cache import all_latest
from course_lib.messages import Trouble

FORMATS = ("csv", "exercises", "canvas", "moodle")
LMS = ("canvas", "moodle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """One student's grade for one chapter, including hand grading and late penalty."""

    student: Student
    chapter: str
    raw: float = 0.0
    penalty: float = 0.0
    maximum: float = 0.0
    at: datetime | None = None
    handed_in: bool = False  # and graded
    by_exercise: dict[str, float | None] = field(default_factory=dict)  # None until a person has graded it
    unreadable: bool = False  # handed in, but it could not be read or run, and nobody gave points by hand
    waits: bool = False  # whether a cell waits for a person's grade

    @property
    def score(self) -> float:
        """Points that count."""
        return max(0.0, round(self.raw - self.penalty, 2))


def grades(folder: ClassFolder, chapters: Sequence[str]) -> list[Grade]:
    """Grades of some chapters, from the gradebook; none for a student who handed in nothing. Trouble before a
    release."""
    from nbgrader.api import MissingEntry

    found = []
    lost = {chapter: _unreadable(folder, chapter) for chapter in chapters}
    with closing(gradebook(folder)) as book:
        for chapter in chapters:
            try:
                assignment = book.find_assignment(folder.settings.assignment(chapter))
            except MissingEntry as error:
                raise Trouble(
                    f"Chapter {chapter} is not in the gradebook.", f"`./course class release {chapter}` puts it there"
                ) from error
            made = {each.student_id: each for each in assignment.submissions}
            for student in folder.roster.students():
                each = made.get(student.id)
                if each is None:
                    found.append(Grade(student=student, chapter=chapter, maximum=assignment.max_score))
                    continue
                cells = [grade for notebook in each.notebooks for grade in notebook.grades]
                open_ = [grade for grade in cells if grade.auto_score is None and grade.manual_score is None]
                found.append(
                    Grade(
                        student=student,
                        chapter=chapter,
                        raw=float(each.score),
                        penalty=float(each.late_submission_penalty or 0.0),
                        maximum=assignment.max_score,
                        at=folder.submissions.arrival(student, chapter),
                        handed_in=True,
                        unreadable=student.id in lost[chapter] and all(grade.manual_score is None for grade in cells),
                        by_exercise={
                            grade.name.removesuffix(CHECK_SUFFIX): None if grade in open_ else float(grade.score)
                            for grade in cells
                        },
                        waits=bool(open_),
                    )
                )
    return found


def gradebook_scores(folder: ClassFolder, chapter: str) -> dict[str, float]:
    """Student -> points in the gradebook, hand grading included, before the late penalty: what formgrader shows."""
    return {each.student.id: each.raw for each in grades(folder, [chapter]) if each.handed_in}


def waiting(folder: ClassFolder, chapter: str) -> tuple[str, ...]:
    """The students of whose work a person still has to grade something."""
    return tuple(each.student.id for each in grades(folder, [chapter]) if each.waits)


def _unreadable(folder: ClassFolder, chapter: str) -> set[str]:
    """The students whose submission could not be read or run as a whole."""
    reports = all_latest(folder, chapter)
    return {name for name, report in reports.items() if report.get("state") not in (None, "graded")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A file of grades, with notes for its reader."""

    path: Path
    notes: tuple[str, ...] = ()


def export(
    folder: ClassFolder,
    to: str,
    chapters: Sequence[str],
    *,
    path: Path | None = None,
    column: str = "",
    missing_as_zero: bool = False,
    unreadable_as_zero: bool = False,
) -> Exported:
    """Write grades in one of `FORMATS`. A column's name in Canvas is remembered for the next export.

    An LMS deletes a grade whose cell is empty, including "excused". So students without a grade have no line in its
    file. Nor has a student whose work waits for a person, or could not be read: that is no grade, unless
    `unreadable_as_zero` says so.
    """
    if to not in FORMATS:
        raise Trouble(f"There is no format {to!r}.", f"choose from {', '.join(FORMATS)}")
    if column and len(chapters) != 1:
        raise Trouble("--column names one chapter's column.", "export one chapter at a time")
    if not chapters:
        raise Trouble(
            f"No chapter of {folder.settings.name} is released yet, so there are no grades.",
            "`./course class release` comes first",
        )
    every = grades(folder, chapters)
    unreadable = [] if unreadable_as_zero else [each for each in every if each.unreadable]
    found = [
        replace(each, handed_in=False, by_exercise={} if each in unreadable else each.by_exercise)
        if each.waits or each in unreadable
        else each
        for each in every
    ]
    if to in LMS and not missing_as_zero and not any(each.handed_in for each in found):
        raise Trouble(
            f"No student has a grade in chapter {', '.join(chapters)} yet.",
            "grade what waits for a person in `./course class formgrader`"
            if any(each.waits for each in found)
            else "`./course class grade` first; --missing-as-zero gives everybody a 0",
        )
    if column and to == "canvas":
        folder.settings.chapter(chapters[0])["canvas_column"] = column
        folder.settings.save()
    rows = {"csv": _plain, "exercises": _exercises, "canvas": _canvas, "moodle": _moodle}[to](
        folder, found, chapters, column, missing_as_zero
    )
    target = (
        path
        or folder.root
        / "exports"
        / f"{folder.settings.name}-{'-'.join(chapters) if len(chapters) < 4 else 'all'}-{to}.csv"
    )
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    write_whole(target, "\ufeff" + out.getvalue() if to in ("csv", "exercises") else out.getvalue())
    return Exported(path=target, notes=tuple(_notes(found, unreadable, to, missing_as_zero)))


def _notes(found: Sequence[Grade], unreadable: Sequence[Grade], to: str, zero: bool) -> Iterable[str]:
    lost = sorted({each.student.id for each in unreadable})
    waits = sorted({each.student.id for each in found if each.waits})
    missing = sorted({each.student.id for each in found if not each.handed_in} - {*lost, *waits})
    if lost:
        yield (
            f"Could not be read, so no grade is in the file: {', '.join(lost)}. `./course class status` names the "
            "chapters; ask for the notebook again, or give 0 with --unreadable-as-zero."
        )
    if waits:
        yield (
            f"Waiting for a person's grade, so no total is in the file: {', '.join(waits)}. Grade them in "
            "`./course class formgrader`, then export again."
        )
    if missing and to in LMS and not zero:
        yield f"No grade yet, so what the LMS has stays: {', '.join(missing)}. --missing-as-zero gives them 0."


Rows = Iterable[Sequence[object]]


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _plain(folder: ClassFolder, found: Sequence[Grade], chapters: Sequence[str], column: str, zero: bool) -> Rows:
    """nbgrader's own columns, a line for each student and chapter."""
    yield (
        "assignment",
        "duedate",
        "timestamp",
        "student_id",
        "last_name",
        "first_name",
        "email",
        "raw_score",
        "late_submission_penalty",
        "score",
        "max_score",
    )
    for each in found:
        if (each.unreadable or each.waits) and not each.handed_in:
            continue
        due, who = folder.settings.due(each.student, each.chapter), each.student
        yield (
            folder.settings.assignment(each.chapter),
            due or "",
            each.at or "",
            who.id,
            _cell(who.last_name),
            _cell(who.first_name),
            who.email,
            _number(each.raw),
            _number(each.penalty),
            _number(each.score),
            _number(each.maximum),
        )


def _exercises(folder: ClassFolder, found: Sequence[Grade], chapters: Sequence[str], column: str, zero: bool) -> Rows:
    """A line for each student, a column for each exercise."""
    columns = [(chapter, name) for chapter in chapters for name in _names(found, chapter)]
    yield (
        "student_id",
        "last_name",
        "first_name",
        "section",
        *(f"{chapter} {name}" for chapter, name in columns),
        *(f"{chapter} late penalty" for chapter in chapters),
    )
    by = {(each.student.id, each.chapter): each for each in found}
    for who in folder.roster.students():
        scores = [by[who.id, chapter].by_exercise.get(name) for chapter, name in columns]
        yield (
            who.id,
            _cell(who.last_name),
            _cell(who.first_name),
            _cell(who.section),
            *("" if score is None else _number(score) for score in scores),
            *(_number(by[who.id, chapter].penalty) for chapter in chapters),
        )


def _names(found: Sequence[Grade], chapter: str) -> list[str]:
    return list(dict.fromkeys(name for each in found if each.chapter == chapter for name in each.by_exercise))


def _canvas(folder: ClassFolder, found: Sequence[Grade], chapters: Sequence[str], column: str, zero: bool) -> Rows:
    """Canvas's gradebook import: its five columns, one more for each chapter, and a line of points possible."""
    names = {
        chapter: column or folder.settings.chapter(chapter).get("canvas_column") or folder.settings.assignment(chapter)
        for chapter in chapters
    }
    most = {each.chapter: each.maximum for each in found}
    yield ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", *names.values())
    yield ("    Points Possible", "", "", "", "", *(_number(most[chapter]) for chapter in chapters))
    by = {(each.student.id, each.chapter): each for each in found}
    for who in _with_grades(folder, by, zero):
        name = ", ".join(filter(None, (who.last_name, who.first_name))) or who.id
        yield (
            _cell(name),
            who.lms_id,
            _cell(who.sis_id),
            who.login,
            _cell(who.section),
            *(_score(by[who.id, chapter], zero) for chapter in chapters),
        )


def _moodle(folder: ClassFolder, found: Sequence[Grade], chapters: Sequence[str], column: str, zero: bool) -> Rows:
    """Moodle's grade import: email and ID number, and for each grade its feedback, never one without the other."""
    names = {chapter: column or folder.settings.assignment(chapter) for chapter in chapters}
    yield ("Email address", "ID number", *(text for name in names.values() for text in (name, f"{name} feedback")))
    by = {(each.student.id, each.chapter): each for each in found}
    for who in _with_grades(folder, by, zero):
        yield (
            who.email,
            who.id,
            *(
                text
                for chapter in chapters
                for text in (_score(by[who.id, chapter], zero), _words(by[who.id, chapter]))
            ),
        )


def _with_grades(folder: ClassFolder, by: Mapping[tuple[str, str], Grade], zero: bool) -> list[Student]:
    """The students with a grade in one of the chapters; all students if missing work counts as zero."""
    graded = {student for (student, _), grade in by.items() if _counts(grade, zero)}
    return [student for student in folder.roster.students() if student.id in graded]


def _score(grade: Grade, zero: bool) -> str:
    """A grade; empty if nothing was handed in, unless that counts as zero."""
    return _number(grade.score) if _counts(grade, zero) else ""


def _counts(grade: Grade, zero: bool) -> bool:
    """Whether a file for an LMS has this grade."""
    return grade.handed_in or (zero and not grade.unreadable and not grade.waits)


def _words(grade: Grade) -> str:
    if not grade.handed_in:
        return ""
    late = f", {_number(grade.penalty)} off for lateness" if grade.penalty else ""
    return f"{_number(grade.score)} of {_number(grade.maximum)} points{late}"


def _cell(text: str) -> str:
    """Text that no spreadsheet interprets as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
