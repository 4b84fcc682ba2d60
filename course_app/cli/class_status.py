"""`course class status`: where the class stands."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, lines, numbers, opened, table
from course_app.cli.console import examples, part

EXAMPLES = examples(
    "course class status",
    "course class status 06 --missing     also the students who handed in nothing",
    "course class status --json",
)


def status(
    chapters: Annotated[list[str] | None, typer.Argument(help="Chapters; all by default.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Also list the students who handed in nothing.")] = False,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show who handed in, what came late, and what is graded."""
    place = opened(folder)
    found = part("course_grader.classroom.status", "the class's status").status(place, numbers(chapters) or None)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "name": place.settings.name,
                    "contract": place.settings.contract,
                    "chapters": [asdict(each) for each in found],
                },
                indent=1,
            )
        )
        return
    rows = []
    for each in found:
        due = place.settings.due("", each.chapter)
        mean = "" if each.mean is None else f"{each.mean:.1f} of {each.maximum:g}"
        rows.append(
            [
                each.chapter,
                "yes" if each.released else "no",
                f"{due:%Y-%m-%d %H:%M}" if due else "",
                f"{each.handed_in} of {each.students}",
                each.late or "",
                each.graded,
                len(each.waiting) or "",
                mean,
            ]
        )
    headings = ["chapter", "released", "due", "handed in", "late", "graded", "waiting", "mean"]
    table(headings, rows, headings[3:])
    for each in found:
        lines(f"Chapter {each.chapter}: graded, but could not be read or run", each.refused)
        lines(f"Chapter {each.chapter}: waiting for a person's grade (`./course class formgrader`)", each.by_hand)
        if missing and each.released:
            lines(f"Chapter {each.chapter}: nothing from", each.missing)
    if any(each.waiting for each in found):
        typer.echo("\n`./course class grade` grades the waiting submissions.")
