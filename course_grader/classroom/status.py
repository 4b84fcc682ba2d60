"""The state of a class: who handed in, what was late, what is graded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from course_grader.classroom.export import gradebook_scores, waiting
from course_grader.classroom.folder import ClassFolder
from course_grader.service.results import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterStatus:
    """One chapter of a class."""

    chapter: str
    released: bool
    students: int
    handed_in: int
    late: int
    graded: int
    waiting: tuple[str, ...]  # handed in, not graded as they are now
    by_hand: tuple[str, ...]  # graded, but a cell waits for a person
    refused: tuple[str, ...]  # graded, but could not be read or run
    missing: tuple[str, ...]  # nothing handed in
    mean: float | None  # points in the gradebook, of those graded that could be read
    maximum: float


def status(folder: ClassFolder, chapters: Sequence[str] | None = None) -> list[ChapterStatus]:
    """The class's chapters."""
    return [_chapter(folder, chapter) for chapter in chapters or folder.settings.chapters()]


def _chapter(folder: ClassFolder, chapter: str) -> ChapterStatus:
    reports = current(folder, chapter)
    there = [student.id for student in folder.roster.students() if folder.submissions.notebook(student, chapter)]
    graded = [
        name
        for name in there
        if name in reports
        and reports[name].get("notebook_sha256") == folder.submissions.arrival_record(name, chapter).get("sha256")
    ]
    refused = tuple(name for name in graded if reports[name].get("state") not in (None, "graded"))
    scores = gradebook_scores(folder, chapter) if graded else {}
    points = [scores[name] for name in graded if name in scores and name not in refused]
    return ChapterStatus(
        chapter=chapter,
        released=(folder.root / "release" / folder.settings.assignment(chapter)).is_dir(),
        students=len(folder.roster.students()),
        handed_in=len(there),
        late=sum(bool(folder.submissions.arrival_record(name, chapter).get("late")) for name in there),
        graded=len(graded),
        waiting=tuple(name for name in there if name not in graded),
        mean=sum(points) / len(points) if points else None,
        by_hand=waiting(folder, chapter) if graded else (),
        refused=refused,
        missing=tuple(student.id for student in folder.roster.students() if student.id not in there),
        maximum=folder.exercises.maximum(chapter),
    )


def current(folder: ClassFolder, chapter: str) -> Mapping[str, Result]:
    """Student -> the report that counts."""
    from course_grader.service import report_cache as reports

    return reports.all_latest(folder, chapter)
