"""`course evidence`: evidence files of real runs, yours and those that ship with the course."""

import json
from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.console import examples, part

ADD = examples(
    "course evidence add tour.zip        the zip that a tour made, into work/evidence",
    "course evidence add train.json      one file",
)
LIST = examples("course evidence list                everything that chapters can read", "course evidence list --json")

app = typer.Typer(
    name="evidence",
    help="Evidence files of real runs: yours, and those that ship with the course.",
    no_args_is_help=True,
    epilog=examples("course evidence add tour.zip", "course evidence list"),
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("add", epilog=ADD)
def add(paths: Annotated[list[Path], typer.Argument(help="A tour's zip, or evidence files (JSON).")]) -> None:
    """Verify evidence and put it where the chapters look: work/evidence."""
    store = part("course_runs.store", "evidence")
    raise typer.Exit(store.add(paths))


@app.command("list", epilog=LIST)
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """List the evidence that there is, newest first, and whether anything contradicts it."""
    rows = part("course_runs.store", "evidence").rows()
    if as_json:
        typer.echo(json.dumps({"evidence": rows}, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    heads = ("from", "what", "device", "when", "verdict", "file")
    for name in heads:
        table.add_column(name, overflow="fold", no_wrap=name not in ("what", "device"))
    for row in rows:
        shown = row | {"when": row["when"][:10], "file": "/".join(Path(row["file"]).parts[-2:])}
        shown["what"] = row["kind"] if row["what"] == row["kind"] else f"{row['kind']} {row['what']}"
        table.add_row(*(str(shown[name]) for name in heads))
    Console(highlight=False).print(table if rows else "There is none yet: course run train --out work/evidence")
