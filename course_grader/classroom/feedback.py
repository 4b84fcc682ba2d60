"""`class feedback`: a page for every student and chapter, made by nbgrader's converter, and zips for upload to an LMS.

nbgrader's GenerateFeedback finds the notebooks and writes the files, so formgrader's button and `nbgrader
generate_feedback` make the same pages. Their content comes from our reports and the gradebook.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import MissingEntry

from course_grader import exercises
from course_grader.blank_notebook import blank
from course_grader.classroom.export import waiting
from course_grader.classroom.feedback_page import Exercise, Page, Written, render
from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook, zipped
from course_grader.classroom.roster import Student
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.judge.report import ReportData, report_of_dict
from course_grader.notebooks import Cell, grade_meta, is_by_hand, read, write_whole
from course_grader.release_steps import chapter_of, fill
from course_grader.service.autograded import is_rubric
from course_grader.service.report_cache import latest
from course_lib.messages import Trouble

COURSE = "Training at Scale"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    """The gradebook's data about one submitted notebook."""

    scores: Mapping[str, float | None] = field(
        default_factory=dict
    )  # grade_id -> score; None until a person has graded it
    maxima: Mapping[str, float] = field(default_factory=dict)
    by_hand: frozenset[str] = frozenset()
    comments: Mapping[str, str] = field(default_factory=dict)  # grade_id of an answer or task -> a grader's words
    penalty: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The result of `make_feedback`."""

    written: tuple[Path, ...]  # a page for each student and chapter
    zips: tuple[Path, ...]  # the same pages, named as an LMS takes them back
    skipped: tuple[tuple[str, str, str], ...] = ()  # (student, chapter, why there is no page)
    waiting: tuple[tuple[str, str], ...] = ()  # (student, chapter) of pages on which a person's grade is missing


def make_feedback(
    folder: ClassFolder, *, students: Iterable[str] | None = None, chapters: Iterable[str] | None = None
) -> Given:
    """Write feedback/<student>/<chapter>/<chapter>.html for everything that is graded, and
    exports/feedback-<chapter>….zip.
    """
    students = None if students is None else list(students)
    chosen = folder.roster.students() if students is None else [folder.roster.student(name) for name in students]
    gradebook(folder).close()  # its error is clearer than nbgrader's
    written: list[Path] = []
    zips: list[Path] = []
    skipped, waits = [], []
    for chapter in folder.settings.chapters() if chapters is None else chapters:
        made: dict[str, Path] = {}
        for student in chosen:
            if latest(folder, student.id, chapter) is not None:
                made[student.id] = _write(folder, student, chapter)
            elif folder.submissions.notebook(student, chapter) is not None:
                skipped.append((student.id, chapter, "handed in, and not graded yet: ./course class grade"))
            elif students is not None:
                skipped.append((student.id, chapter, "handed in nothing"))
        written += made.values()
        waits += [(student, chapter) for student in waiting(folder, chapter) if student in made] if made else []
        zips += _zips(folder, chapter, made | _others(folder, chapter, made)) if made else []
    return Given(written=tuple(written), zips=tuple(zips), skipped=tuple(skipped), waiting=tuple(waits))


def _write(folder: ClassFolder, student: Student, chapter: str) -> Path:
    """One page: by nbgrader if there is a graded notebook; a submission that could not be read has a page too."""
    name = folder.settings.assignment(chapter)
    page = folder.root / "feedback" / student.id / name / f"{name}.html"
    if (folder.root / "autograded" / student.id / name / f"{name}.ipynb").is_file():
        _convert(folder, student.id, name)
    else:
        write_whole(page, render(page_of(folder, student.id, chapter)))
    if not page.is_file():
        raise Trouble(
            f"{page} was not written.",
            "look at the lines above; `nbgrader generate_feedback` in the class folder says more",
        )
    return page


def _convert(folder: ClassFolder, student: str, assignment: str) -> None:
    """Run nbgrader's converter on one submission, with the class's configuration."""
    from nbgrader.converters import GenerateFeedback
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    from course_grader.classroom.config import load

    config = load(folder)
    coursedir = CourseDirectory(config=config)
    coursedir.student_id, coursedir.assignment_id = student, assignment
    converter = GenerateFeedback(coursedir=coursedir, config=config)
    converter.force = True
    converter.log = logging.getLogger("course.feedback")
    converter.log.setLevel(logging.CRITICAL)
    try:
        converter.start()
    except NbGraderException as error:
        raise Trouble(
            f"Feedback for {student}, {assignment}: {error}",
            "`nbgrader generate_feedback` in the class folder says more",
        ) from error


class FeedbackExporter(HTMLExporter):
    """nbconvert exporter of our page: nbgrader says whose notebook it is, and the class folder supplies the rest."""

    def from_notebook_node(  # type: ignore[override]  # nbconvert types it as a notebook; its own exporters give text
        self, nb: NotebookNode, resources: ResourcesDict | None = None, **kw: object
    ) -> tuple[str, dict[str, object]]:
        """The page, and the resources with the file extension."""
        resources = resources or ResourcesDict()
        about = resources.get("nbgrader", {})
        folder = ClassFolder.open()  # nbgrader's converters work in the class's folder
        page = page_of(folder, about["student"], chapter_of(about["assignment"]), nb["cells"])
        return render(page), {**resources, "output_extension": ".html"}


# ------------------------------------------------------------------------------------------------ one page's content


def page_of(folder: ClassFolder, student: str, chapter: str, cells: Iterable[Cell] = ()) -> Page:
    """The content of a student's page; `cells` are the graded notebook's, none if the submission could not be read."""
    report = latest(folder, student, chapter)
    if report is None:
        raise Trouble(
            f"{student}'s chapter {chapter} is not graded yet.",
            f"./course class grade --student {student} --chapter {chapter}",
        )
    cells, source = list(cells), read(folder.sources.path(chapter))["cells"]
    answers = {
        grade_meta(cell)["grade_id"]: cell
        for cell in cells
        if grade_meta(cell).get("solution") or grade_meta(cell).get("task")
    }
    book = _book(folder, student, folder.settings.assignment(chapter))
    who = folder.roster.student(student)
    return Page(
        title=_title(source, folder.settings.assignment(chapter)),
        student=f"{who.first_name} {who.last_name}".strip() or who.id,
        course=f"{COURSE} · {folder.settings.name}",
        exercises=[_exercise(folder, student, chapter, each, answers, book) for each in report.get("reports", [])],
        written=_written(answers, book),
        own=_own(cells, folder, student, chapter),
        notes=report.get("notes", []),
        trouble=report.get("why", ""),
        penalty=book.penalty,
        arrived=folder.submissions.arrival(student, chapter),
        arrival_known=folder.submissions.arrival_known(student, chapter),
        due=folder.settings.due(student, chapter),
        key=report.get("key", ""),
    )


def _exercise(
    folder: ClassFolder, student: str, chapter: str, data: ReportData, answers: Mapping[str, Cell], book: _Book
) -> Exercise:
    report = report_of_dict(data)
    card = exercises.card(report.exercise)
    check = report.exercise + CHECK_SUFFIX
    answered = report.state != "not answered" and report.exercise in answers
    return Exercise(
        card=card,
        report=report,
        answer=answers[report.exercise]["source"] if answered else "",
        statement=card.statement(
            folder.variants.params(student, chapter, folder.exercises.known(chapter)).get(card.id)
        ),
        score=book.scores.get(check),
        by_hand=check in book.by_hand,
        comment=book.comments.get(report.exercise, ""),
    )


def _written(answers: Mapping[str, Cell], book: _Book) -> list[Written]:
    """The cells graded by a person: a solution or task with points of its own."""
    return [
        Written(
            name=name,
            source=cell["source"],
            markdown=cell["cell_type"] == "markdown",
            score=book.scores.get(name),
            maximum=book.maxima.get(name, float(grade_meta(cell).get("points", 0))),
            by_hand=name in book.by_hand,
            comment=book.comments.get(name, ""),
        )
        for name, cell in answers.items()
        if is_by_hand(cell) and book.maxima.get(name, 1)
    ]


def _own(cells: Iterable[Cell], folder: ClassFolder, student: str, chapter: str) -> list[Written]:
    """The cells that the student added or changed: not in their release, not graded, not empty."""
    source = blank(read(folder.sources.path(chapter)))
    given = fill(source, chapter, folder.variants.of(student, chapter), folder.exercises.all_cards(chapter))
    known = {cell["source"].strip() for cell in given["cells"]} | {""}
    return [
        Written(name="", source=cell["source"], markdown=cell["cell_type"] == "markdown")
        for cell in cells
        if not (grade_meta(cell) or is_rubric(cell) or cell["source"].strip() in known)
    ]


def _title(source: Iterable[Cell], fallback: str) -> str:
    """The chapter's first heading."""
    lines = (line for cell in source if cell["cell_type"] == "markdown" for line in cell["source"].splitlines())
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), fallback)


def _book(folder: ClassFolder, student: str, assignment: str) -> _Book:
    """The gradebook's data about one submission; empty if it has none."""
    with closing(gradebook(folder)) as book:
        try:
            notebook = book.find_submission_notebook(assignment, assignment, student)
        except MissingEntry:
            return _Book()
        grades = {grade.name: grade for grade in notebook.grades}
        return _Book(
            scores={
                name: None
                if grade.needs_manual_grade and grade.manual_score is None and grade.auto_score is None
                else grade.score
                for name, grade in grades.items()
            },
            maxima={name: grade.max_score for name, grade in grades.items()},
            by_hand=frozenset(name for name, grade in grades.items() if grade.manual_score is not None),
            comments={comment.name: comment.manual_comment for comment in notebook.comments if comment.manual_comment},
            penalty=notebook.late_submission_penalty or 0.0,
        )


# ------------------------------------------------------------------------------------------------ zips for an LMS


def _zips(folder: ClassFolder, chapter: str, pages: Mapping[str, Path]) -> list[Path]:
    """One zip for each way in which submissions arrived, with file names that tell the LMS whose they are."""
    ways: dict[str, dict[str, Path]] = {}
    for student, page in pages.items():
        record = folder.submissions.arrival_record(student, chapter)
        way, name = lms_name(record.get("by", ""), record.get("file", ""), page.name) or ("", f"{student}/{page.name}")
        ways.setdefault(way, {})[name] = page
    written = []
    for way, files in ways.items():
        path = folder.root / "exports" / f"feedback-{chapter}{f'-{way}' if way else ''}.zip"
        write_whole(path, zipped({name: page.read_bytes() for name, page in files.items()}))
        written.append(path)
    return written


def _others(folder: ClassFolder, chapter: str, made: Mapping[str, Path]) -> dict[str, Path]:
    """The pages that students have already and that were not written now: the chapter's zip holds them too."""
    name = folder.settings.assignment(chapter)
    pages = {each.id: folder.root / "feedback" / each.id / name / f"{name}.html" for each in folder.roster.students()}
    return {student: page for student, page in pages.items() if student not in made and page.is_file()}


def lms_name(way: str, file: str, page: str) -> tuple[str, str] | None:
    """(LMS, name in its upload zip) for a submission that came from an LMS; None for others.

    Canvas reads two numbers, student and attachment, in the file name that its own download gave. Moodle reads the
    folder's name in its own download, "Full Name_number_assignsubmission_file_"; the file in it may have any name.
    """
    path = PurePosixPath(file)
    first = PurePosixPath(path.parts[0]).stem if path.parts else ""  # for a file from a zip, the path follows
    if way == "canvas" and sum(part.isdigit() for part in first.split("_")) >= 2:
        return "canvas", f"{first}.html"
    if way == "moodle":
        folder = next(
            (part for part in path.parts[:-1] if len(part.split("_")) >= 4 and part.split("_")[1].isdigit()), ""
        )
        if folder:
            return "moodle", f"{folder}/{page}"
    return None
