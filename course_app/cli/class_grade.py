"""`course class grade`: judge what was handed in."""

import json
import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, numbers, opened
from course_app.cli.console import examples, part

EXAMPLES = examples(
    "course class grade                            everything new; after a stop it continues where it was",
    "course class grade --chapter 06 --jobs 4",
    "course class grade --student ada              one student",
    "course class grade --again                    also what is graded already, with the same scores",
    "course class grade --scheduler tcp://head:8786   on a Dask cluster",
)


def grade(
    students: Annotated[
        list[str] | None, typer.Option("--student", help="Only this student; may be given again.")
    ] = None,
    chapters: Annotated[
        list[str] | None, typer.Option("--chapter", help="Only this chapter; may be given again.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Submissions at a time; one for each core by default.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also judge submissions that are already graded.")] = False,
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="A Dask scheduler's address.")] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run work that you trust where there is no sandbox.")
    ] = False,
    other_contract: Annotated[
        bool, typer.Option("--other-contract", help="Grade although the class was made under another contract version.")
    ] = False,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Grade submissions, each in a sandbox, and write the gradebook. You can stop it at any time; the same command
    continues."""
    place = opened(folder)
    for name in students or ():
        place.roster.student(name)
    grading = part("course_grader.service.grading", "grading a class")
    showing = part("course_grader.service.progress_view", "grading a class")
    with nullcontext(None) if as_json else showing.progress() as say:
        summary = grading.grade_class(
            place,
            students=students or None,
            chapters=numbers(chapters) or None,
            jobs=jobs,
            scheduler=scheduler,
            no_sandbox=no_sandbox,
            other_contract=other_contract,
            again=again,
            say=say,
        )
    if as_json:
        typer.echo(json.dumps(summary.as_data(), indent=1, ensure_ascii=False))
    else:
        showing.show(summary)
    sys.stdout.flush()
    raise typer.Exit(summary.exit_code)
