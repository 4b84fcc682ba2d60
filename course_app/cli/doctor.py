"""`course doctor`: what this machine has, what is missing, and the way out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples

if TYPE_CHECKING:
    from course_runs.machine import Line
    from course_runs.preflight import Line as Seen

EXAMPLES = examples("course doctor", "course doctor --json   for a bug report")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check this machine: what is missing and how to fix it. With GPUs, also links, clocks and measured bandwidth.

    Exits non-zero if the course cannot run here.
    """
    from course_app.learner import environment, work
    from course_runs import preflight

    where = work.folders()
    lines = [*environment.look(where.root, where.work), *machine_lines(preflight.lines()), *_sandbox_lines()]
    if as_json:
        typer.echo(environment.as_json(lines))
    else:
        _table(lines)
    raise typer.Exit(environment.worst(lines))


def _sandbox_lines() -> "list[Line]":
    """What grading a class can use here; nothing in a student's bundle, which does not grade."""
    try:
        from course_grader.sandbox import availabilities, sandbox_lines
    except ModuleNotFoundError:
        return []
    return sandbox_lines(availabilities())


def machine_lines(seen: "Sequence[Seen]") -> "list[Line]":
    """What real runs need of this machine. A sick GPU stops no chapter, so nothing here is worse than a warning."""
    from course_runs.machine import Line

    return [Line(each.what, "ok" if each.state == "ok" else "warn", each.found, each.way_out) for each in seen]


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
