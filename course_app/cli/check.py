"""`course check`: grade chapters."""

from typing import Annotated

import typer

from course_app.cli.console import examples, part

EXAMPLES = examples(
    "course check 01                          your chapter 01",
    "course check 01 02                       several",
    "course check --all                       every chapter in your work folder",
    "course check ~/Downloads/my_walls.ipynb  a notebook anywhere; its own metadata says which chapter it is",
    "course check 01 --json                   for a program; exits non-zero if an exercise is not solved",
    "course check --all --solved              the course's own answers (contributors): all must pass",
)


def check(
    targets: Annotated[list[str] | None, typer.Argument(help="Chapters (01) or notebooks (a path).")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every chapter.")] = False,
    solved: Annotated[bool, typer.Option("--solved", help="The course's own answers instead of yours.")] = False,
    blank: Annotated[
        bool, typer.Option("--blank", help="The chapters as released: every exercise must score 0.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Grade your chapters: points for each exercise, and why.

    Runs your notebook from the top in a process of its own and judges each exercise on what your code does, as in the
    notebook's own checks. Your file is not changed.
    """
    if not targets and not all_:
        raise typer.BadParameter("name a chapter (course check 01), a notebook, or --all")
    if solved and blank:
        raise typer.BadParameter("--solved and --blank exclude each other")
    grading = part("course_app.check.command", "grading")
    raise typer.Exit(grading.check_main(targets or [], solved, blank, all_, as_json))
