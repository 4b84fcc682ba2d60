"""`course class init`: a class's folder."""

from datetime import date, timedelta
from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.class_words import numbers
from course_app.cli.console import examples, part
from course_app.learner import work as learner_work
from course_lib.folders import ROOT, installed
from course_lib.messages import Trouble, count_text

EXAMPLES = examples(
    "course class init autumn-26 --roster canvas.csv        next to the course's own folder",
    "course class init autumn-26 --chapters 00,01,06 --folder ~/classes/autumn-26",
    "course class init big-26 --db-url postgresql+psycopg://grader@localhost/big26",
)


def init(
    name: Annotated[str, typer.Argument(help="The class's name, such as autumn-26.")],
    roster: Annotated[
        Path | None,
        typer.Option(
            "--roster",
            help="The list of students: Canvas's gradebook export, Moodle's participants or grades, or any CSV "
            "with a header.",
        ),
    ] = None,
    chapters: Annotated[str, typer.Option("--chapters", help="Chapters, separated by commas; all by default.")] = "",
    folder: Annotated[
        Path | None, typer.Option("--folder", "-C", help="The class's folder; by default next to the course's folder.")
    ] = None,
    late: Annotated[
        float | None,
        typer.Option("--late", min=0, help="Points lost for each day late; by default lateness is only recorded."),
    ] = None,
    db_url: Annotated[
        str, typer.Option("--db-url", help="Keep the gradebook in this database instead of a file (an SQLAlchemy URL).")
    ] = "",
) -> None:
    """Make a class: its folder, secret, roster, gradebook, and copies of the chapters' sources.

    The copies are pinned: the class is graded by them even when the course moves on. Nothing that exists is
    overwritten.
    """
    classroom = part("course_grader.classroom.new_class", "a class")
    course = learner_work.folders().root
    learner_work.require(ROOT if installed() else course, "solutions", "A class")
    path = (folder or course.parent / name).expanduser().absolute()
    if path.resolve().is_relative_to(course.resolve()):
        raise Trouble(
            f"{path} lies in the course's own folder, where a clean or a pull may harm it.", "choose another --folder"
        )
    students = part("course_grader.classroom.roster", "a roster").read_roster(roster.expanduser()) if roster else ()
    wanted = numbers(chapters.split(",")) if chapters else None
    made = classroom.new_class(
        path, name, roster=students, chapters=wanted, late_points_per_day=late, db_url=db_url, course=course
    )
    release = part("course_grader.classroom.release", "a gradebook")
    release.start_gradebook(made)
    typer.echo(
        f"{name}: {count_text(len(students), 'student')}, chapters {', '.join(made.settings.chapters())}, contract "
        f"version {made.settings.contract}."
    )
    typer.echo(f"  {made.root}")
    typer.echo(
        f"  Keep a copy of {made.root / '.secret'} where no student sees it: variants and hidden cases follow from it."
    )
    if not students:
        typer.echo(f"  Nobody is in it yet: write a line for each student into {made.root / 'roster.csv'}.")
    first = made.settings.chapters()[0] if made.settings.chapters() else "01"
    in_two_weeks = date.today() + timedelta(days=14)
    typer.echo(f"Next: cd {path} && ./course class release {first} --due {in_two_weeks}")
