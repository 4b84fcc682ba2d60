"""`course doctor`: what this machine has, what is missing, and the way out."""

from typing import Annotated

import typer

from course_lib.cli.words import examples

EXAMPLES = examples("course doctor", "course doctor --json   for a bug report")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Look at this machine: what is missing, and the way out.

    Exits non-zero if the course cannot run here.
    """
    from course_lib.learner import environment, work

    where = work.folders()
    lines = environment.look(where.root, where.work)
    if as_json:
        typer.echo(environment.as_json(lines))
    else:
        _table(lines)
    raise typer.Exit(environment.worst(lines))


def _table(lines: list) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    colour = {"ok": "green", "warn": "yellow", "fail": "red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    for line in lines:
        way_out = f"\nway out: {line.way_out}" if line.way_out else ""
        table.add_row(f"[{colour[line.state]}]{line.state}[/]", line.what, escape(f"{line.found}{way_out}"))
    Console(highlight=False).print(table)
