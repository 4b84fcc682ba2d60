"""`course certificate`: what was done, as a page that can be verified."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.installation import called_here

if TYPE_CHECKING:
    from course_app.check.command import Job
    from course_app.check.results import Graded

EXAMPLES = examples(
    'course certificate --name "Ada Lovelace"           writes certificate.html into the work folder',
    'course certificate 06 07 --name "Ada" --out c.html   two chapters only',
    "course certificate --verify certificate.html       judges every answer again and compares",
    "course certificate --verify c.html --json          for a program; exits with 1 if something differs",
)


def certificate(
    chapters: Annotated[
        list[str] | None, typer.Argument(help="Chapters; by default all in which you passed something.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The name on the page.")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the page goes; by default certificate.html in the work folder.")
    ] = None,
    verify: Annotated[Path | None, typer.Option("--verify", help="Compare this page with the work folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Write a page that says what you did, or verify one.

    Every answer in your work folder is judged again, so this takes as long as `course check` of the same chapters. The
    page holds points, verdict counts, the calibration of your predictions and a fingerprint of each answer. It needs no
    other file.
    """
    from course_app.learner import work

    where = work.folders()
    if verify is not None:
        _verify(verify, where, as_json)
    gathering = part("course_app.certificate.record", "certificates")
    writing = part("course_app.certificate.page", "certificates")
    from course_app.cli.class_words import numbers
    from course_grader.notebooks import write_whole

    record = gathering.gather(where, name, time.strftime("%Y-%m-%d"), numbers(chapters), None if as_json else _say)
    path = (out or where.work / "certificate.html").expanduser()
    write_whole(path, writing.page(record))
    part("course_app.certificate.issued", "certificates").note(record, where.work)
    if as_json:
        typer.echo(json.dumps({"page": str(path), **record}, indent=1, ensure_ascii=False))
        return
    passed = [each["passed"] for chapter in record["chapters"] for each in chapter["exercises"]]
    typer.echo(f"{sum(passed)} of {len(passed)} exercises passed. Written to {path}.")
    command = called_here(f"./course certificate --verify {path}")
    typer.echo(f"Whoever has this work folder can verify it: {command}")


def _verify(path: Path, where: object, as_json: bool) -> None:
    verifying = part("course_app.certificate.verify", "certificates")
    found = verifying.differences(path.expanduser(), where, None if as_json else _say)
    if as_json:
        typer.echo(
            json.dumps({"page": str(path), "holds": not found, "differences": found}, indent=1, ensure_ascii=False)
        )
    elif found:
        typer.echo(f"{path} does not hold:")
        for each in found:
            typer.echo(f"  - {each}")
    else:
        typer.echo(f"{path} holds: every answer was judged again, and nothing differs.")
    raise typer.Exit(1 if found else 0)


def _say(job: "Job | Graded") -> None:
    typer.echo(f"judging {job.name} …", err=True)
