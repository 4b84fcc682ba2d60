"""`course progress`: what is done."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from course_app.cli.console import examples, part

EXAMPLES = examples("course progress", "course progress --json")


def progress(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show how far you are.

    Core exercises by chapter, points, and how well calibrated your predictions are.
    """
    from course_app.learner import progress as store
    from course_app.learner import work

    cards = part("course_grader.exercises", "the list of exercises").cards()
    course = [store.Exercise(id=c.id, chapter=c.chapter, core=c.kind == "core", points=c.points) for c in cards]
    kept = store.load(work.folders().work)
    rows = store.table(course, kept)
    held, made = store.calibration(kept)
    if as_json:
        lines = [{**asdict(row), "passed": row.passed} for row in rows]
        typer.echo(json.dumps({"chapters": lines, "predictions": {"held": held, "made": made}}, indent=1))
        return
    _table(rows)
    if made:
        typer.echo(
            f"Predictions: {held} of {made} intervals held the truth. Calibrated 90 % intervals hold it 9 times in 10."
        )
    unfinished = store.where_one_was(rows, kept)
    typer.echo(
        f"Next: {unfinished.next} in chapter {unfinished.chapter}." if unfinished else "All core exercises are done."
    )


def _table(rows: list) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("chapter", box=None, header_style="bold", pad_edge=False)
    for heading in ("core", "more", "points"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        bar = "█" * row.core_done + "░" * (row.core - row.core_done)
        core, more = f"{row.core_done} of {row.core}", f"{row.more_done} of {row.more}"
        table.add_row(
            row.chapter, core, more, f"{row.points:g} of {row.maximum:g}", f"{bar}{'  passed' if row.passed else ''}"
        )
    Console(highlight=False).print(table)
