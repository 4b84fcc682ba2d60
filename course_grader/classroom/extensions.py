"""Give one student more time: `class.toml`, the record of arrival and the gradebook then agree on what is late."""

from contextlib import closing
from datetime import UTC, datetime

from nbgrader.api import Gradebook

from course_grader.classroom.folder import ClassFolder
from course_grader.classroom.release import gradebook
from course_lib.messages import Trouble, count_text


def extend(folder: ClassFolder, ident: str, chapter: str, until: datetime) -> str:
    """Set a student's due date. Returns a sentence that says what changed."""
    student, common = folder.roster.student(ident), folder.settings.due("", chapter)
    if common is None:
        raise Trouble(
            f"Chapter {chapter} has no due date, so nothing can be extended.",
            f"`./course class release {chapter} --due …` gives it one",
        )
    if until < common:
        raise Trouble(
            f"{until:%Y-%m-%d %H:%M} is before the due date of all, {common:%Y-%m-%d %H:%M}.", "give a later time"
        )
    folder.settings.extend(student, chapter, until)
    record, at = folder.submissions.arrival_record(student, chapter), folder.submissions.arrival(student, chapter)
    if at is not None:
        folder.submissions.remember_arrival(student, chapter, {**record, "late": at > until})
        folder.submissions.save_arrivals()
    with closing(gradebook(folder)) as book:
        penalty = _tell_gradebook(folder, book, student.id, chapter)
    said = f"{student.name} has until {until:%Y-%m-%d %H:%M} for chapter {chapter}."
    if at is not None:
        said += f" Their work arrived {at:%Y-%m-%d %H:%M}: {'late' if at > until else 'in time'}{penalty}."
    return said


def _tell_gradebook(folder: ClassFolder, book: Gradebook, student: str, chapter: str) -> str:
    """Enter the extension and the recomputed penalty in the gradebook; returns words about the penalty."""
    from nbgrader.api import MissingEntry

    try:
        submission = book.find_submission(folder.settings.assignment(chapter), student)
    except MissingEntry:
        return ""
    due, common = folder.settings.due(student, chapter), folder.settings.due("", chapter)
    if submission.assignment.duedate is None and common:  # added to class.toml by hand, and not released yet
        submission.assignment.duedate = common.astimezone(UTC).replace(tzinfo=None)
    submission.extension = due - common if due and common else None
    at = folder.submissions.arrival(student, chapter)
    submission.timestamp = at.astimezone(UTC).replace(tzinfo=None) if at else submission.timestamp
    book.db.commit()
    total = 0.0
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = _penalty(folder, student, notebook.score, submission.total_seconds_late)
        total += notebook.late_submission_penalty or 0.0
    book.db.commit()
    return f", {count_text(total, 'point')} off" if total else ", no points off"


def _penalty(folder: ClassFolder, student: str, score: float, seconds: float) -> float | None:
    """The penalty by nbgrader's late plugin of this class."""
    from nbgrader.plugins import LateSubmissionPlugin

    from course_grader.classroom.config import load

    config = load(folder)
    plugin = (
        config.AssignLatePenalties.get("plugin_class", LateSubmissionPlugin)
        if "AssignLatePenalties" in config
        else LateSubmissionPlugin
    )
    return plugin(config=config).late_submission_penalty(student, score, seconds) if seconds > 0 else None
