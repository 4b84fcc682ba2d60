"""`course exercise`: write exercises, and judge answers to them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.class_words import numbers, opened, table
from course_app.cli.console import examples, part
from course_lib.folders import ROOT, require
from course_lib.messages import Trouble, count_text

if TYPE_CHECKING:
    from course_grader.bank.kill_matrix import Row
    from course_grader.classroom.folder import ClassFolder

app = typer.Typer(
    name="exercise",
    help="Write an exercise, for the course or for one of your classes, or judge answers to one.",
    no_args_is_help=True,
    epilog=examples(
        "course exercise new 06 my-id",
        "course exercise new 06 my-id --class ~/classes/autumn-26",
        "course exercise test my-id --class ~/classes/autumn-26",
        "course exercise try ring-shift answers.py",
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
)
EXAMPLES = examples(
    "course exercise new 06 my-id                                in the course: card, judge with a bank of answers, "
    "and cells to fill in",
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
    scaffold = part("course_grader.classroom.scaffold", "writing exercises")
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
    """Judge every answer of a class's own exercise: right ones must get full points, wrong ones the verdict meant for
    them."""
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
    odd = sum(not row.ok for row in rows)
    typer.echo(f"{count_text(len(rows), 'answer')}, {odd or 'none'} with another result than meant.")
    raise typer.Exit(1 if odd else 0)


def _judged(folder: "ClassFolder", exercise: str) -> "list[Row]":
    """Every answer in the bank of a class's own exercise, judged; Trouble where a part of it is not written."""
    from course_grader.bank import answer_bank, kill_matrix
    from course_grader.exercises import class_exercises

    if exercise not in class_exercises.cards():
        raise Trouble(
            f"{folder.settings.name} has no exercise of its own {exercise!r}.",
            f"it has {', '.join(class_exercises.cards()) or 'none'}",
        )
    path = class_exercises.place(exercise) / "judging.py"
    try:
        return [kill_matrix.judge(answer) for answer in answer_bank.read_answers(path, exercise)]
    except (OSError, ValueError, NotImplementedError, KeyError, AttributeError) as error:
        raise Trouble(f"{exercise} is not written yet: {error}", f"look into {path.parent}") from error


TRY = examples(
    "course exercise try ring-shift answers.py           points, verdict, mistake and message of each "
    "answer in the file",
    "course exercise try ring-shift mine/ --json         of each answer in each .py file of the folder, as JSON",
    "course exercise try state-13b a.py --variant 7      on another variant's numbers",
)


@app.command("try", epilog=TRY)
def try_(
    exercise: Annotated[str, typer.Argument(help="The exercise's id, such as ring-shift.")],
    files: Annotated[list[Path], typer.Argument(help="Files with answers, or folders of them.")],
    variant: Annotated[
        str | None,
        typer.Option(metavar="SEED", help="Judge on the variant of this seed; without it on the public one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge answers in files, whether or not the course ships them.

    A file holds one answer, or several with headings as in the course's own judges: `# %% right: NAME`,
    `# %% wrong: NAME => KIND MISTAKE`, `# %% half: NAME => POINTS`. They run in this process, so try only code that you
    trust.

    The exit code is 1 where an answer with a heading gets another result than its heading says.
    """
    from course_grader.bank import kill_matrix

    kill_matrix.warm()
    found = []
    for path in _python_files(files):
        for row in _tried(exercise, path, variant):
            found.append((path, row))
            if not as_json:
                typer.echo(_told(path, row))
    if as_json:
        typer.echo(json.dumps([_as_data(path, row) for path, row in found], indent=2, ensure_ascii=False))
    missed = sum(not row.ok for _, row in found if row.answer.name != _WHOLE)
    if not as_json:
        typer.echo(
            f"{len(found)} answer{'' if len(found) == 1 else 's'} to {exercise}; {missed or 'none'} with another "
            f"result than meant."
        )
    raise typer.Exit(1 if missed else 0)


_WHOLE = "the file"  # the name of an answer without a heading


def _python_files(given: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named; Trouble where there is none."""
    found = [path for each in given for path in (sorted(each.glob("*.py")) if each.is_dir() else [each])]
    missing = [path for path in found if not path.is_file()]
    if missing or not found:
        which = missing[0] if missing else ", ".join(map(str, given))
        raise Trouble(f"There is no file with answers at {which}.", "name .py files, or a folder that holds some")
    return found


def _tried(exercise: str, path: Path, variant: str | None) -> "list[Row]":
    """Every answer of a file, judged; Trouble where the exercise or the file cannot be read."""
    from course_grader import exercises
    from course_grader.bank import kill_matrix
    from course_grader.bank.answer_bank import read_bank
    from course_grader.judging.shipped import imports_text

    try:
        exercises.card(exercise)
        text = path.read_text(encoding="utf-8")
        headed = any(line.startswith("# %% ") for line in text.splitlines())
        text = text if headed else f"# %% right: {_WHOLE}\n{text}"
        answers = read_bank(text, exercise, path.name, imports=imports_text(exercise))
    except (OSError, ValueError) as error:
        raise Trouble(str(error), "`course exercise try --help` shows the form") from error
    return [kill_matrix.judge(answer, variant) for answer in answers]


def _told(path: Path, row: "Row") -> str:
    """One answer in two lines."""
    mark = "  " if row.ok or row.answer.name == _WHOLE else "✗ "
    report = row.report
    head = (
        f"{mark}{path.name}: {row.answer.name}   {report.points:g} of {report.maximum:g}   {row.got}   "
        f"{row.seconds:.2f} s"
    )
    return f"{head}\n      {row.message}" if row.message else head


def _as_data(path: Path, row: "Row") -> dict[str, object]:
    """One answer as plain data."""
    failing = [each for each in row.report.verdicts if not each.ok]
    return {
        "file": str(path),
        "answer": row.answer.name,
        "meant": row.answer.sort if row.answer.sort != "wrong" else f"{row.answer.expected} {row.answer.mistake}",
        "as_meant": row.ok,
        "points": row.report.points,
        "maximum": row.report.maximum,
        "state": row.report.state,
        "verdict": row.got,
        "mistake": next((each.mistake for each in failing if each.mistake), ""),
        "message": row.message,
        "seconds": round(row.seconds, 3),
    }
