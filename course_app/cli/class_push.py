"""`course class push`: grades into Canvas or Moodle, through their web services."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, numbers, opened, table, ticking
from course_app.cli.console import examples, part
from course_lib.messages import Trouble, count_text

EXAMPLES = examples(
    "export CANVAS_TOKEN=…          or MOODLE_TOKEN; tokens are read from the environment only",
    "course class push 06 --to https://canvas.example.edu/courses/12/assignments/345    what would be sent",
    "course class push 06 --send    sends it; the class remembers the address",
    "course class push 06 --send --overwrite ada    also where a person has set another grade",
)


def push(
    chapters: Annotated[
        list[str] | None, typer.Argument(help="Chapters; by default all whose address is known.")
    ] = None,
    to: Annotated[
        str, typer.Option("--to", help="The assignment's address, as the browser shows it; the class remembers it.")
    ] = "",
    send: Annotated[bool, typer.Option("--send", help="Send. Without it, only say what would be sent.")] = False,
    overwrite: Annotated[
        list[str] | None,
        typer.Option("--overwrite", help="Replace this student's grade even if a person set it; may be given again."),
    ] = None,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Send grades to Canvas or Moodle through their web services. Without `--send`, nothing is changed there.

    Grades that a person set, excused students and locked grades stay. Work that waits for a person's grade, or could
    not be read, is left out. After a stop, the same command goes on.
    """
    place = opened(folder)
    known = [chapter for chapter in place.settings.chapters() if place.settings.chapter(chapter).get("lms")]
    wanted = numbers(chapters) or known
    if not wanted or (to and len(wanted) != 1):
        raise Trouble(
            "It is not clear which chapter belongs where.", "course class push 06 --to ADDRESS, one at a time"
        )
    pushing = part("course_grader.classroom.push", "sending grades")
    done = []
    for chapter in wanted:
        with ticking("sending") as say:
            done.append(pushing.push(place, chapter, to=to, send=send, overwrite=overwrite or (), say=say))
    if as_json:
        typer.echo(json.dumps({"sent": send, "chapters": [asdict(each) for each in done]}, indent=1))
    for each in () if as_json else done:
        typer.echo(f"Chapter {each.chapter}, “{each.assignment}” in {each.lms}:")
        shown = [line for line in each.lines if line.does != "there" and line.why != "no graded work"]
        points = [["" if value is None else f"{value:g}" for value in (line.grade, line.now)] for line in shown]
        rows = [(line.student, *pair, line.does, line.why) for line, pair in zip(shown, points, strict=True)]
        if rows:
            table(["student", "grade", f"in {each.lms}", "", "why"], rows, ["grade", f"in {each.lms}"])
        count = Counter(line.does for line in each.lines)
        nothing = sum(line.why == "no graded work" for line in each.lines)
        sums = [f"{count['sent']} sent" if send else f"{count['send']} to send", f"{count['there']} there already"]
        sums += [f"{count['kept'] - nothing} kept", f"{count['left out'] + count['problem']} left to you"]
        typer.echo(f"{', '.join(sums)}; {count_text(nothing, 'student')} without graded work.")
        if not send and count["send"]:
            typer.echo(f"Nothing was sent. `./course class push {each.chapter} --send` sends it.")
    raise typer.Exit(max(each.exit_code for each in done))
