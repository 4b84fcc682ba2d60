"""`course class release`: chapters for students."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, moment, numbers, opened, table, ticking
from course_app.cli.console import examples, part
from course_app.learner import work as learner_work
from course_lib.messages import Trouble, count_text

EXAMPLES = examples(
    "course class release 06 --due 2026-10-12                      until the end of that day",
    "course class release 06 --variants                            a folder and a zip for each student, with "
    "their own numbers",
    "course class release 01 --exercises state-13b,mfu-waste --points state-13b=5",
    "course class release 07 --pin                                 a chapter that the class did not have, or its "
    "newer release",
    "course class release --all --bundle                           also course.zip: what students need of the course, "
    "without answers",
)


def release(
    chapters: Annotated[list[str] | None, typer.Argument(help="Chapters, such as 06.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every chapter of the class.")] = False,
    exercises: Annotated[
        str,
        typer.Option("--exercises", help="The exercises that count, separated by commas; the others stay as practice."),
    ] = "",
    points: Annotated[str, typer.Option("--points", help="Other points: id=points, separated by commas.")] = "",
    due: Annotated[str | None, typer.Option("--due", help="2026-10-12 23:59, or a day for its end.")] = None,
    variants: Annotated[bool, typer.Option("--variants", help="Give each student different numbers.")] = False,
    bundle: Annotated[
        bool,
        typer.Option(
            "--bundle", help="Also release/course.zip: the library that notebooks need, for students without a clone."
        ),
    ] = False,
    pin: Annotated[
        bool,
        typer.Option(
            "--pin",
            help="Copy the chapter from the course as it is now: to add a chapter to the class, or to take a newer "
            "release of it.",
        ),
    ] = False,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Release chapters, without answers, hidden tests or judges, and enter their points into the gradebook."""
    opened_class = opened(folder)
    wanted = list(opened_class.settings.chapters()) if all_ else numbers(chapters)
    if not wanted and not bundle:
        raise typer.BadParameter("name a chapter (course class release 06), or --all")
    if (exercises or points) and len(wanted) != 1:
        raise typer.BadParameter("--exercises and --points are for one chapter at a time")
    releasing = part("course_grader.classroom.release", "releasing")
    if pin:
        for chapter in wanted:
            opened_class.sources.pin_from(learner_work.folders().root, chapter)
    chosen = [name.strip() for name in exercises.split(",")] if exercises else None
    with ticking("releasing") as say:
        done = [
            releasing.release_chapter(
                opened_class,
                chapter,
                exercises=chosen,
                points=_points(points),
                due=moment(due),
                variants=variants,
                say=say,
            )
            for chapter in wanted
        ]
    bundled = (
        part("course_grader.classroom.bundle", "the students' bundle").write_bundle(opened_class) if bundle else None
    )
    if as_json:
        released = [
            {**asdict(each), "path": str(each.path), "due": each.due.isoformat() if each.due else None} for each in done
        ]
        typer.echo(json.dumps({"released": released, "bundle": str(bundled) if bundled else None}, indent=1))
        return
    rows = [
        (
            each.chapter,
            each.exercises,
            f"{each.points:g}",
            f"{each.due:%Y-%m-%d %H:%M}" if each.due else "none",
            each.variants or "common",
            each.path,
        )
        for each in done
    ]
    if rows:
        table(["chapter", "exercises", "points", "due", "variants", "folder"], rows, ["exercises", "points"])
    for each in done:
        for name, worth in each.by_hand.items():
            counts = "a person grades it" if worth else "it does not count"
            typer.echo(
                f"{name}: {count_text(worth, 'point')}, {counts}."
                + (f" --points {name}=0 leaves it out." if worth else "")
            )
        if each.due and each.due < datetime.now().astimezone():
            typer.echo(
                f"Chapter {each.chapter} was due {each.due:%Y-%m-%d %H:%M}: what comes from now on is late. --due "
                f"says another day."
            )
    if any(each.variants for each in done):
        typer.echo(f"Each student's folder and zip: {opened_class.root / 'variants'}")
    if bundled:
        typer.echo(f"What students need of the course: {bundled}")


def _points(text: str) -> dict[str, float]:
    given = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = pair.partition("=")
        try:
            given[name.strip()] = float(value)
        except ValueError as error:
            raise Trouble(
                f"--points {pair!r} is not of the form id=points.", "write --points state-13b=5,mfu-waste=2"
            ) from error
    return given
