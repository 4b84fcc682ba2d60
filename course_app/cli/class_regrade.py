"""`course class regrade`: one exercise anew."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, opened, table
from course_app.cli.console import examples, part

if TYPE_CHECKING:
    from course_grader.service.regrade import Change

EXAMPLES = examples(
    "course class regrade --exercise ring-all-reduce            old and new points of each student; no "
    "student loses any",
    "course class regrade --exercise ring-all-reduce --lower    also changes that lower points",
)


def regrade(
    exercise: Annotated[str, typer.Option("--exercise", help="The exercise's id.")],
    students: Annotated[
        list[str] | None, typer.Option("--student", help="Only this student; may be given again.")
    ] = None,
    lower: Annotated[bool, typer.Option("--lower", help="Also apply changes that lower a student's points.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Submissions at a time.")] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="Run work that you trust where there is no sandbox.")
    ] = False,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Judge one exercise of all submissions again, after its check was fixed or its points changed. Points set by hand
    stay."""
    place = opened(folder)
    grading = part("course_grader.service.regrade", "grading a class")
    stopped = None
    with (
        nullcontext(None)
        if as_json
        else part("course_grader.service.progress_view", "grading a class").progress() as say
    ):
        try:
            changes = grading.regrade_exercise(
                place, exercise, students=students or None, lower=lower, jobs=jobs, no_sandbox=no_sandbox, say=say
            )
        except grading.Stopped as end:
            stopped, changes = end, end.changes
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "exercise": exercise,
                    "changes": [asdict(each) for each in changes],
                    "stopped": stopped and stopped.problem,
                },
                indent=1,
            )
        )
    else:
        _tell(exercise, changes)
    if stopped:
        typer.echo(f"course: {stopped}", err=True)
        raise typer.Exit(stopped.exit_code)


def _tell(exercise: str, changes: "Sequence[Change]") -> None:
    """Old and new points of those that differ, and how many there were."""
    rows = [
        (each.student, each.chapter, f"{each.old:g}", f"{each.new:g}", _what(each), each.why)
        for each in changes
        if each.old != each.new or each.kept_by
    ]
    if rows:
        table(["student", "chapter", "old", "new", "", ""], rows, ["old", "new"])
    moved = [each for each in changes if each.old != each.new and not each.kept_by]
    typer.echo(f"{exercise}: {len(changes)} judged again, {len(moved)} changed.")


def _what(change: "Change") -> str:
    """What became of a change."""
    return {
        "": "taken over",
        "higher before": "kept: it was higher (--lower takes it over)",
        "set by hand": "kept: set by hand",
    }.get(change.kept_by, change.kept_by)
