"""`course class extend`: more time for one student."""

from typing import Annotated

import typer

from course_app.cli.class_words import HERE, Folder, moment, numbers, opened
from course_app.cli.console import examples, part

EXAMPLES = examples(
    'course class extend ada 06 --until "2026-10-15 12:00"',
    "course class extend ada 06 --until 2026-10-15      until the end of that day",
)


def extend(
    student: Annotated[str, typer.Argument(help="The student's id.")],
    chapter: Annotated[str, typer.Argument(help="The chapter, such as 06.")],
    until: Annotated[str, typer.Option("--until", help="2026-10-15 12:00, or a day for its end.")],
    folder: Folder = HERE,
) -> None:
    """Give one student more time. Lateness and its cost are recomputed immediately."""
    place = opened(folder)
    when = moment(until)
    assert when is not None
    said = part("course_grader.classroom.extensions", "extensions").extend(place, student, numbers([chapter])[0], when)
    typer.echo(said)
