"""`course submit`: a chapter to hand in."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from course_app.cli.console import examples

EXAMPLES = examples(
    "course submit 06                                  a zip in work/submissions, to upload where your class hands in",
    "course submit 06 --to ~/Desktop",
    "course submit 06 --name lovelace_06.ipynb         the notebook alone, named as asked",
    "course submit ~/Downloads/06_collectives.ipynb    a notebook anywhere",
)


def submit(
    target: Annotated[str, typer.Argument(help="A chapter, such as 06, or a notebook's path.")],
    to: Annotated[Path | None, typer.Option("--to", help="The folder to write it to.")] = None,
    name: Annotated[
        str, typer.Option("--name", help="The file's name: ending in .ipynb, the notebook alone; else a zip.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Write a chapter as a file to hand in.

    It is your notebook as it was last saved, with a receipt that holds its hash. What is still unanswered is listed
    first.
    """
    from course_app.learner import handing_in, work

    made = handing_in.hand_in(target, work.folders(), to=to, name=name)
    if as_json:
        typer.echo(
            json.dumps(
                {name: str(value) if isinstance(value, Path) else value for name, value in asdict(made).items()},
                indent=1,
                default=str,
            )
        )
        return
    if made.unanswered:
        typer.echo(f"Not answered yet: {', '.join(made.unanswered)} ({len(made.unanswered)} of {made.answers}).")
    typer.echo(f"Chapter {made.chapter}, as saved {made.saved:%Y-%m-%d %H:%M}: {made.path}")
    typer.echo(f"  sha256 {made.sha256}")
    typer.echo(f"  Receipt: {made.receipt}")
    typer.echo("Upload that file where your class hands in. What is not saved yet in JupyterLab is not in it.")
