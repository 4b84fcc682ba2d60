"""`course class roster`: who is in the class."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, lines, opened, table
from course_app.cli.console import examples, part
from course_lib.messages import count_text

EXAMPLES = examples(
    "course class roster                  who is in it",
    "course class roster canvas.csv       adds new students; none is removed",
)


def roster(
    file: Annotated[
        Path | None,
        typer.Argument(help="A newer list: Canvas's gradebook export, another tool's list, or any CSV with a header."),
    ] = None,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show who is in the class, or bring it up to date from a newer list."""
    place = opened(folder)
    if file is None and as_json:
        typer.echo(json.dumps({"students": [asdict(each) for each in place.roster.students()]}, indent=1))
        return
    if file is None:
        rows = [
            (each.id, each.last_name, each.first_name, each.email, each.lms_id, each.login, each.section)
            for each in place.roster.students()
        ]
        table(["id", "last name", "first name", "email", "LMS", "login", "section"], rows)
        return
    reading = part("course_grader.classroom.roster", "a roster")
    made = reading.merged(place.roster.students(), reading.read_roster(file.expanduser()))
    place.roster.save(made.students)
    part("course_grader.classroom.release", "a gradebook").start_gradebook(place)
    if as_json:
        changes = {"new": list(made.new), "changed": list(made.changed), "gone": list(made.gone)}
        typer.echo(json.dumps({"students": [asdict(each) for each in made.students], **changes}, indent=1))
        return
    typer.echo(f"{count_text(len(made.students), 'student')}: {len(made.new)} new, {len(made.changed)} changed.")
    lines("New (release --variants again gives them their folders)", made.new)
    lines("No longer in that list; they stay, and so does their work", made.gone)
