"""`course class export`: grades for Canvas, Moodle or a spreadsheet."""

from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, Folder, numbers, opened
from course_app.cli.console import examples, part

EXAMPLES = examples(
    'course class export 06 --to canvas --column "Chapter 06 (123456)"   the column as Canvas calls it; a new name '
    "makes a new column",
    "course class export 06 --to moodle                                  match by email address or ID number",
    "course class export --to csv                                        nbgrader's columns, every chapter",
    "course class export 06 --to exercises                               a column for each exercise",
)


def export(
    chapters: Annotated[list[str] | None, typer.Argument(help="Chapters; all by default.")] = None,
    to: Annotated[str, typer.Option("--to", help="csv, exercises, canvas or moodle.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; by default in exports/.")
    ] = None,
    column: Annotated[
        str,
        typer.Option(
            "--column",
            help="The name of the chapter's column in the LMS, such as 'Name (number)' from Canvas's own export; the "
            "class remembers it.",
        ),
    ] = "",
    zero: Annotated[
        bool,
        typer.Option(
            "--missing-as-zero",
            help="Give 0 to students who handed in nothing. Without it, the LMS keeps the grade that it has.",
        ),
    ] = False,
    unreadable: Annotated[
        bool,
        typer.Option(
            "--unreadable-as-zero",
            help="Give 0 to students whose notebook could not be read. Without it, they are named and left out.",
        ),
    ] = False,
    folder: Folder = HERE,
) -> None:
    """Write grades as a file that the LMS imports without editing. They include hand grading and late penalties."""
    place = opened(folder)
    wanted = numbers(chapters) or [
        chapter
        for chapter in place.settings.chapters()
        if (place.root / "release" / place.settings.assignment(chapter)).is_dir()
    ]
    exporting = part("course_grader.classroom.export", "exporting")
    made = exporting.export(
        place,
        to,
        wanted,
        path=output.expanduser() if output else None,
        column=column,
        missing_as_zero=zero,
        unreadable_as_zero=unreadable,
    )
    typer.echo(made.path)
    for note in made.notes:
        typer.echo(f"  {note}")
