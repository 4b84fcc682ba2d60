"""`course class collect`: what students handed in."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from course_app.cli.class_words import HERE, AsJson, Folder, lines, moment, numbers, opened, table, ticking
from course_app.cli.console import examples, part

if TYPE_CHECKING:
    from course_grader.classroom.collect_student import Collected

EXAMPLES = examples(
    "course class collect ~/Downloads/submissions.zip          Canvas's or Moodle's download; its file names say "
    "which student's each is",
    "course class collect submissions.zip --times grades.csv   with Moodle's grading worksheet, which says when "
    "each arrived",
    "course class collect handed-in/ --chapter 06              a folder: one folder or one notebook for each student",
    'course class collect ada.ipynb --student ada --chapter 06 --at "2026-10-12 09:30"   a notebook that '
    "arrived by mail",
    "course class collect --exchange                           nbgrader's exchange",
)


def collect(
    source: Annotated[Path | None, typer.Argument(help="A folder, a zip, or one notebook.")] = None,
    exchange: Annotated[bool, typer.Option("--exchange", help="From nbgrader's exchange.")] = False,
    chapter: Annotated[
        str, typer.Option("--chapter", help="Only this chapter. Needed for a notebook that does not name its chapter.")
    ] = "",
    student: Annotated[str, typer.Option("--student", help="The student who handed it in.")] = "",
    at: Annotated[str | None, typer.Option("--at", help="When it arrived, as you state it.")] = None,
    times: Annotated[
        Path | None,
        typer.Option(
            "--times", help="When each arrived: Moodle's grading worksheet, or a CSV with student_id,submitted_at."
        ),
    ] = None,
    any_owner: Annotated[
        bool,
        typer.Option(
            "--any-owner", help="With --exchange: accept files of any owner, because all students share one account."
        ),
    ] = False,
    folder: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Collect submissions. If a student handed in several, the newest counts.

    Links, zip bombs and odd paths are refused, and no code runs. The time of arrival comes from the LMS, the exchange
    or you, never from the submission.
    """
    if (source is None) is not exchange:
        raise typer.BadParameter("give a folder, a zip or a notebook; or --exchange")
    place = opened(folder)
    wanted = numbers([chapter])[0] if chapter else ""
    if source is None:
        taking = part("course_grader.classroom.exchange", "the exchange")
        with ticking("collecting") as say:
            done = taking.collect_exchange(
                place, (wanted,) if wanted else place.settings.chapters(), any_owner=any_owner, say=say
            )
    else:
        taking = part("course_grader.classroom.collect", "collecting")
        table_of = (
            part("course_grader.classroom.lms", "collecting").read_times(times.expanduser(), place.roster.students())
            if times
            else None
        )
        with ticking("collecting") as say:
            done = taking.collect(
                place, source.expanduser(), chapter=wanted, student=student, at=moment(at), times=table_of, say=say
            )
    if as_json:
        taken = [{**asdict(each), "at": each.at.isoformat(timespec="seconds")} for each in done.taken]
        typer.echo(
            json.dumps(
                {"taken": taken, "unmatched": done.unmatched, "refused": done.refused, "notes": done.notes},
                indent=1,
                ensure_ascii=False,
            )
        )
    else:
        _tell(done)
    raise typer.Exit(done.exit_code)


def _tell(done: "Collected") -> None:
    """Words for what was taken and what was not."""
    rows = []
    for chapter in sorted({taken.chapter for taken in done.taken}):
        ours = [taken for taken in done.taken if taken.chapter == chapter]
        states = Counter(taken.state for taken in ours)
        rows.append(
            [
                chapter,
                len(ours),
                *(states[state] for state in ("new", "newer", "unchanged", "older")),
                sum(taken.late for taken in ours),
            ]
        )
    if rows:
        headings = ["chapter", "students", "new", "newer", "unchanged", "older", "late"]
        table(headings, rows, headings[1:])
    else:
        typer.echo("Nothing was taken.")
    lines(
        "Notes",
        [*(f"{taken.student}, {taken.chapter}: {note}" for taken in done.taken for note in taken.notes), *done.notes],
    )
    lines("Not matched to a student or a chapter (left where they are):", done.unmatched)
    if done.unmatched:
        typer.echo("  To assign one of them: course class collect FILE --student ID --chapter NN")
    lines("Refused:", done.refused)
