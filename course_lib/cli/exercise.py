"""`course exercise`: write exercises."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from course_lib.cli.class_words import numbers, opened, table
from course_lib.cli.words import examples, part
from course_lib.install import ROOT, Trouble
from course_lib.install.folders import require
from course_lib.install.words import count_text

if TYPE_CHECKING:
    from course_lib.grading.classroom.folder import ClassFolder

app = typer.Typer(
    name="exercise",
    help="Write an exercise, for the course or for one of your classes.",
    no_args_is_help=True,
    epilog=examples(
        "course exercise new 06 my-id",
        "course exercise new 06 my-id --class ~/classes/autumn-26",
        "course exercise test my-id --class ~/classes/autumn-26",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
EXAMPLES = examples(
    "course exercise new 06 my-id                                in the course: card, judge, cells and a bank of answers to fill in",
    "course exercise new 06 my-id --class ~/classes/autumn-26    in a class of yours; the course itself stays as it is",
)


@app.command("new", epilog=EXAMPLES)
def new(
    chapter: Annotated[str, typer.Argument(help="The chapter, such as 06.")],
    exercise: Annotated[str, typer.Argument(help="Its id: small letters, digits and dashes.")],
    class_folder: Annotated[
        Path | None, typer.Option("--class", help="A class's folder, for an exercise of that class alone.")
    ] = None,
) -> None:
    """Write the files of a new exercise.

    Its tests fail until it is written. The command prints the next steps.
    """
    scaffold = part("course_lib.grading.classroom.scaffold", "writing exercises")
    if class_folder is None:
        require(ROOT, "solutions", "A new exercise of the course")
    made = scaffold.new_exercise(numbers([chapter])[0], exercise, class_folder)
    for path in made.written:
        typer.echo(f"  {path}")
    typer.echo("Next:")
    for number, step in enumerate(made.steps, 1):
        typer.echo(f"  {number}. {step}")


@app.command("test", epilog=examples("course exercise test my-id --class ~/classes/autumn-26"))
def test(
    exercise: Annotated[str, typer.Argument(help="The exercise's id.")],
    class_folder: Annotated[Path, typer.Option("--class", help="The class whose exercise it is.")] = Path("."),
) -> None:
    """Judge every answer of a class's own exercise: right ones must get full points, wrong ones the verdict meant for them."""
    rows = _judged(opened(class_folder), exercise)
    table(
        ["answer", "meant", "got", "message"],
        [
            (
                row.answer.name,
                row.answer.sort if row.answer.sort == "right" else f"{row.answer.expected} {row.answer.mistake}",
                f"{'' if row.ok else '✗ '}{row.got}",
                row.message[:160],
            )
            for row in rows
        ],
    )
    escaped = sum(not row.ok for row in rows)
    typer.echo(f"{count_text(len(rows), 'answer')}, {escaped or 'none'} with another result than meant.")
    raise typer.Exit(1 if escaped else 0)


def _judged(folder: "ClassFolder", exercise: str) -> list[Any]:
    """Every answer in the bank of a class's own exercise, judged; Trouble where a part of it is not written."""
    from course_lib.exercises import killmatrix, overlay

    if exercise not in overlay.cards():
        raise Trouble(
            f"{folder.settings.name} has no exercise of its own {exercise!r}.",
            f"it has {', '.join(overlay.cards()) or 'none'}",
        )
    path = overlay.place(exercise) / "bank.py"
    try:
        return [killmatrix.judge(replace(answer, exercise=exercise)) for answer in killmatrix.read_bank(path)]
    except (OSError, ValueError, NotImplementedError, KeyError, AttributeError) as error:
        raise Trouble(f"{exercise} is not written yet: {error}", f"look into {path.parent}") from error
