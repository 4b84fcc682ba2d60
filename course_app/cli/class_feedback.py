"""`course class feedback`: a page for each student."""

from typing import Annotated

import typer

from course_app.cli.class_words import HERE, Folder, lines, numbers, opened
from course_app.cli.console import examples, part
from course_lib.messages import Trouble, count_text

EXAMPLES = examples(
    "course class feedback 06                 pages in feedback/, zips for Canvas and Moodle in exports/",
    "course class feedback 06 --student ada",
)


def feedback(
    chapters: Annotated[list[str] | None, typer.Argument(help="Chapters; all that are graded by default.")] = None,
    students: Annotated[
        list[str] | None, typer.Option("--student", help="Only this student; may be given again.")
    ] = None,
    folder: Folder = HERE,
) -> None:
    """Write a page of feedback for each student: points, reasons, comments. A page runs no script."""
    place = opened(folder)
    made = part("course_grader.classroom.feedback", "feedback").make_feedback(
        place, students=students or None, chapters=numbers(chapters) or None
    )
    if not made.written and not made.skipped:
        raise Trouble("Nothing is graded yet, so there is no feedback to write.", "`./course class grade` first")
    typer.echo(f"{count_text(len(made.written), 'page')} of feedback in {place.root / 'feedback'}.")
    for path in made.zips:
        typer.echo(f"  {path}")
    lines("Without feedback:", [f"{student}, {chapter}: {why}" for student, chapter, why in made.skipped])
    lines(
        "Waiting for a person's grade, as these pages say:",
        [f"{student}, {chapter}" for student, chapter in made.waiting],
    )
    raise typer.Exit(1 if made.skipped and not made.written else 0)
