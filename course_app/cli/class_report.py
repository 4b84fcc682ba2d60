"""`course class report`: what the class found hard."""

import json
from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, lines, numbers, opened, table
from course_app.cli.console import examples, part
from course_lib.messages import count_text

EXAMPLES = examples(
    "course class report 06           the hardest exercises, misconceptions by count, suspicious work, and a page "
    "with pictures",
    "course class report --json",
)


def report(
    chapters: Annotated[list[str] | None, typer.Argument(help="Chapters; all that are graded by default.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the page goes; by default exports/report.html.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=0, help="Misconceptions to list for each chapter.")] = 12,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show which exercises the class found hard, which misconceptions caused it, and which submissions deserve a
    look."""
    place = opened(folder)
    reporting = part("course_grader.classroom.report", "reporting")
    made = [reporting.chapter_report(place, chapter) for chapter in numbers(chapters) or place.settings.chapters()]
    made = [each for each in made if each.graded or each.unreadable]
    if as_json:
        typer.echo(json.dumps(reporting.as_data(made), indent=1, ensure_ascii=False))
        return
    if not made:
        typer.echo("Nothing is graded yet: `./course class grade`.")
        raise typer.Exit(1)
    for each in made:
        typer.echo(
            f"\n{each.title}: {each.graded} graded, mean {each.mean:.1f}, median {each.median:.1f} of "
            f"{count_text(each.maximum, 'point')}"
        )
        table(
            ["exercise", "solved", "in part", "wrong", "not answered"],
            [(one.title, one.solved, one.partly, one.wrong, one.open) for one in each.exercises],
            ["solved", "in part", "wrong", "not answered"],
        )
        typer.echo()
        rows = [(len(one.students), one.title, one.name, one.message) for one in each.misconceptions[:most]]
        if rows:
            table(["students", "exercise", "mistake", "what they were told"], rows, ["students"])
        lines("Look at", each.anomalies)
        lines("Could not be read", each.unreadable)
    typer.echo(f"\nWith pictures: {reporting.write_page(place, made, output.expanduser() if output else None)}")
