"""`course drill`: five minutes of short questions."""

import json
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.console import examples, part
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_app.learner.progress import Progress

EXAMPLES = examples(
    "course drill                             questions from the chapters that you have passed",
    "course drill --chapter 01                from chapter 01, passed or not",
    "course drill --minutes 2                 a short one",
    "course drill --json                      how many questions are due; asks nothing",
)


def drill(
    chapter: Annotated[list[str] | None, typer.Option("--chapter", help="Only this chapter, passed or not.")] = None,
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="How long to ask.")] = 5.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print how many questions are due, as one JSON object.")
    ] = False,
) -> None:
    """Five minutes of short questions.

    They come from chapters that you have passed, each time with other numbers. A question that you miss returns soon.
    An empty line skips a question. Ctrl-C ends the drill and keeps your answers.
    """
    from course_app.learner import drill as drills
    from course_app.learner import progress, work

    where = work.folders()
    exercises = part("course_grader.exercises", "the list of drill questions")
    verdict = part("course_grader.judging", "the answers to the drill questions").drill_verdict
    passed = _passed(exercises, progress.load(where.work))
    wanted = [each.zfill(2) for each in chapter] if chapter else passed
    if not wanted and not as_json:
        raise Trouble(
            "Drills come from chapters that you have passed (all core exercises), and there is none yet.",
            "pass one (`./course progress` shows what is left), or choose: ./course drill --chapter 01",
        )
    questions = [question for number in wanted for question in _of(exercises, number)]
    waiting = drills.due(questions, drills.load(where.work), time.time() / 86400)
    if as_json:
        typer.echo(json.dumps({"chapters": wanted, "questions": len(questions), "due": [each.id for each in waiting]}))
        return
    if not waiting:
        typer.echo("Nothing is due: what you knew comes back in a few days.")
        return
    if not sys.stdin.isatty():
        raise Trouble("A drill asks questions, and its input is not a terminal.", "run `./course drill` in a terminal")
    sitting = drills.sit(questions, verdict, where.work, ask=input, say=typer.echo, seconds=60 * minutes)
    missed = f" These return: {', '.join(sitting.missed)}." if sitting.missed else ""
    typer.echo(f"{sitting.right} of {sitting.asked} right.{missed}")


def _passed(exercises: ModuleType, kept: "Progress") -> list[str]:
    from course_app.learner import progress

    course = [
        progress.Exercise(id=c.id, chapter=c.chapter, core=c.kind == "core", points=c.points) for c in exercises.cards()
    ]
    return [row.chapter for row in progress.table(course, kept) if row.passed]


def _of(exercises: ModuleType, number: str) -> tuple:
    try:
        return tuple(exercises.drills(number))
    except ValueError as error:
        raise Trouble(str(error), "`./course progress` lists the chapters") from error
