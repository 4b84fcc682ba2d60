"""The only writer of the gradebook: a submission's scores, comments and penalty in one transaction, with a record of
it.

It writes nbgrader's own tables and one of its own, which gets a row for every time that a submission's scores were
written, in the same transaction. A submission is graded when its row exists.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nbformat import NotebookNode
from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    SourceCell,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import Column, DateTime, Integer, MetaData, String, Table, func, inspect, select, text
from traitlets.config import Config

from course_grader.committed_form import CHECK_SUFFIX
from course_grader.service.gradebook_cells import comment_of, graded_cells
from course_grader.service.gradebook_errors import in_words
from course_grader.service.results import Result
from course_lib.messages import Trouble

BUSY_MS = 300  # that one try waits for a locked gradebook
_TABLES = MetaData()
GRADED = Table(
    "course_graded",
    _TABLES,
    Column("turn", Integer, primary_key=True, autoincrement=True),
    Column("student", String(128), nullable=False),
    Column("assignment", String(255), nullable=False),
    Column("key", String(96), nullable=False),
    Column("at", DateTime(), nullable=False),
)


@dataclass(frozen=True, slots=True)
class Written:
    """The gradebook's data about a submission."""

    score: float
    penalty: float
    by_hand: tuple[str, ...]  # cells whose score was set by hand, and stays


@dataclass(frozen=True, slots=True)
class Known:
    """What was last written about a submission: its key, arrival time and due date."""

    key: str
    timestamp: datetime | None
    due: datetime | None
    extension: timedelta | None
    costs_otherwise: bool = False  # whether its lateness costs other points now than when it was written


class Writer:
    """Writes submissions one by one; a context manager."""

    def __init__(self, db_url: str, course_id: str, config: Config | None = None) -> None:
        self.late = AssignLatePenalties(config=config or Config())
        self.late.log = logging.getLogger("course.late")
        self.late.init_plugin()
        with in_words():
            self.book = Gradebook(db_url, course_id)
            if self.book.engine.dialect.name == "sqlite":
                self._patience()
            if not inspect(self.book.engine).has_table(GRADED.name):
                _TABLES.create_all(self.book.engine)

    def _patience(self) -> None:
        from sqlalchemy import event

        event.listen(
            self.book.engine, "connect", lambda connection, _: connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        )
        self.book.engine.dispose()  # connections made from here on are told

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.book.close()

    # --- what is there

    def known(self) -> dict[tuple[str, str], Known]:
        """(student, assignment) -> what was last written, for everything graded so far."""
        last = select(func.max(GRADED.c.turn)).group_by(GRADED.c.student, GRADED.c.assignment)
        with in_words():
            rows = self.book.db.execute(select(GRADED).where(GRADED.c.turn.in_(last))).all()
            times = {(each.student_id, each.assignment.name): each for each in self._submissions()}
            found = {}
            for row in rows:
                each = times.get((row.student, row.assignment))
                if each is not None:
                    found[row.student, row.assignment] = Known(
                        row.key, each.timestamp, each.duedate, each.extension, self._costs_otherwise(each)
                    )
            self.book.db.commit()
        return found

    def _submissions(self) -> list[SubmittedAssignment]:
        return self.book.db.query(SubmittedAssignment).all()

    def journal(self) -> list[tuple[str, str, str]]:
        """(student, assignment, key) for every time that scores were written, in order."""
        with in_words():
            rows = self.book.db.execute(
                select(GRADED.c.student, GRADED.c.assignment, GRADED.c.key).order_by(GRADED.c.turn)
            ).all()
            self.book.db.commit()
        return [tuple(row) for row in rows]

    def sound(self) -> str:
        """ "" if the database finds no error in itself, else its message. Only for SQLite."""
        if self.book.engine.dialect.name != "sqlite":
            return ""
        with in_words():
            said = [row[0] for row in self.book.db.execute(text("PRAGMA integrity_check")).all()]
            broken = self.book.db.execute(text("PRAGMA foreign_key_check")).all()
            self.book.db.commit()
        return "" if said == ["ok"] and not broken else f"{said} {broken}"

    # --- writing

    def write(
        self,
        report: Result,
        shown: Mapping[str, object] | None,
        *,
        student: Mapping[str, object] | None = None,
        arrival: datetime | None = None,
        due: datetime | None = None,
    ) -> Written:
        """Write scores, comments, time and penalty of one judged submission, all or nothing. `shown` is the notebook
        for graders.

        Scores set by hand stay, and are marked for another look, as nbgrader does. Locked and Full: nothing was
        written.
        """
        session = self.book.db
        try:
            with in_words():
                submission = self._submission(report, student or {})
                notebook = next((each for each in submission.notebooks if each.name == report["assignment"]), None)
                if notebook is None:
                    raise Trouble(
                        f"The gradebook has no notebook {report['assignment']!r}.",
                        f"`./course class release {report['chapter']}` puts it there",
                    )
                submission.timestamp = utc(arrival)
                submission.extension = _extension(submission.assignment.duedate, utc(due))
                by_hand = self._scores(notebook, report, shown)
                self._comments(notebook, report, shown)
                penalty = self._penalty(submission, notebook)
                session.execute(
                    GRADED.insert().values(
                        at=utc(datetime.now(UTC)),
                        student=report["student"],
                        assignment=report["assignment"],
                        key=report["key"],
                    )
                )
                score = float(notebook.score or 0.0)
                session.commit()
            return Written(score, penalty, by_hand)
        except BaseException:
            session.rollback()
            raise

    def _submission(self, report: Result, student: Mapping[str, object]) -> SubmittedAssignment:
        """The student's submission, created by nbgrader if it does not exist."""
        try:
            self.book.find_assignment(report["assignment"])
        except MissingEntry as error:
            raise Trouble(
                f"The gradebook has no assignment {report['assignment']!r}.",
                f"`./course class release {report['chapter']}` puts it there",
            ) from error
        try:
            return self.book.find_submission(report["assignment"], report["student"])
        except MissingEntry:
            known = {
                name: value for name, value in student.items() if name in ("first_name", "last_name", "email") and value
            }
            self.book.update_or_create_student(report["student"], **known)
            with self.book.db.no_autoflush:
                return self.book.add_submission(report["assignment"], report["student"])

    def _scores(
        self, notebook: SubmittedNotebook, report: Result, shown: Mapping[str, object] | None
    ) -> tuple[str, ...]:
        """Write each graded cell's score; returns the cells whose score was set by hand."""
        points = {each["id"] + CHECK_SUFFIX: each for each in report["reports"]}
        cells = graded_cells(shown)
        by_hand = []
        for grade, cell in self._with_cells(notebook, Grade):
            judged = points.pop(cell.name, None)
            if judged is not None:
                if abs(float(cell.max_score) - float(judged["maximum"])) > 1e-9:
                    raise Trouble(
                        f"The gradebook gives {cell.max_score:g} points for {cell.name!r}, the class "
                        f"{judged['maximum']:g}.",
                        f"`./course class release {report['chapter']}` writes the class's points into the gradebook",
                    )
                grade.auto_score = float(judged["points"])
            elif cell.max_score == 0:
                grade.auto_score = 0.0
            elif cell.type == "TaskCell":
                pass
            else:
                grade.auto_score = self._unanswered(notebook, cell.name, cells.get(cell.name))
            grade.needs_manual_grade = grade.manual_score is not None or grade.auto_score is None
            if grade.manual_score is not None:
                by_hand.append(cell.name)
        if missing := sorted(name for name, each in points.items() if each["maximum"]):
            raise Trouble(
                f"The gradebook has no cell {', '.join(missing)}.",
                f"`./course class release {report['chapter']}` puts them there",
            )
        return tuple(by_hand)

    def _unanswered(self, notebook: SubmittedNotebook, name: str, cell: NotebookNode | None) -> float | None:
        """0 for a cell graded by hand that is unchanged from the release, None for one that a person must read."""
        source = (
            self.book.db.query(SourceCell)
            .filter(SourceCell.notebook_id == notebook.notebook_id, SourceCell.name == name)
            .first()
        )
        if cell is None or not cell.source.strip():
            return 0.0
        if source is None:
            return None
        return 0.0 if cell.source.strip() == (source.source or "").strip() else None

    def _comments(self, notebook: SubmittedNotebook, report: Result, shown: Mapping[str, object] | None) -> None:
        """Write at each answer its state and the reason."""
        reports = {each["id"]: each for each in report["reports"]}
        cells = graded_cells(shown)
        for comment, cell in self._with_cells(notebook, Comment):
            if cell.name in reports:
                comment.auto_comment = comment_of(reports[cell.name])
            elif cell.type != "TaskCell":
                comment.auto_comment = (
                    "No response." if self._unanswered(notebook, cell.name, cells.get(cell.name)) == 0.0 else None
                )

    def _with_cells(
        self, notebook: SubmittedNotebook, kind: type[Comment | Grade]
    ) -> list[tuple[Comment | Grade, BaseCell]]:
        return (
            self.book.db.query(kind, BaseCell)
            .join(BaseCell, BaseCell.id == kind.cell_id)
            .filter(kind.notebook_id == notebook.id)
            .all()
        )

    def _penalty(self, submission: SubmittedAssignment, notebook: SubmittedNotebook) -> float:
        """The late penalty, from nbgrader's own plugin."""
        session = self.book.db
        notebook.late_submission_penalty = None
        session.flush()
        session.refresh(notebook)
        notebook.late_submission_penalty = self._cost(submission, notebook)
        return float(notebook.late_submission_penalty or 0.0)

    def _cost(self, submission: SubmittedAssignment, notebook: SubmittedNotebook) -> float | None:
        late = submission.total_seconds_late
        said = (
            self.late.plugin_inst.late_submission_penalty(submission.student_id, notebook.score, late)
            if late > 0
            else None
        )
        return None if said is None else min(max(0.0, said), notebook.score)

    def _costs_otherwise(self, submission: SubmittedAssignment) -> bool:
        return any(
            abs((self._cost(submission, each) or 0.0) - (each.late_submission_penalty or 0.0)) > 1e-9
            for each in submission.notebooks
        )


def utc(moment: datetime | None) -> datetime | None:
    """A time as nbgrader stores it: UTC without a time zone, to the second."""
    if moment is None:
        return None
    return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None, microsecond=0)


def _extension(duedate: datetime | None, due: datetime | None) -> timedelta | None:
    return due - duedate if due is not None and duedate is not None and due != duedate else None
