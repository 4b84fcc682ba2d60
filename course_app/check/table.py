"""A graded chapter for a terminal: exercises × verdicts, points, and what to do next."""

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from course_app.check.results import Graded
from course_grader import exercises
from course_grader.clean_text import clean
from course_grader.judge.result_panel import HEADLINES, rows
from course_grader.records import VERDICT_KINDS, Report, VerdictKind
from course_lib.installation import called_here
from course_lib.messages import count_text

_STYLES = {"✓": "green", "✗": "red", "–": "dim"}


def show(result: Graded, *, solved: bool = False, blank_: bool = False) -> None:
    """Print one chapter's table, notes and next step."""
    console = Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else 120)
    console.print()
    if result.trouble is not None:
        console.print(
            Text(f"{result.name}: not graded", style="bold") if result.name else Text("Not graded", style="bold")
        )
        console.print(Text(clean(result.trouble.problem, 2000)))
        console.print(Text(f"Way out: {clean(result.trouble.way_out, 2000)}."))
        return
    whose = "the course's own answers" if solved else "as released" if blank_ else _here(result.path)
    console.print(Text.assemble((result.name, "bold"), f"  {whose}"))
    console.print(_table(result))
    for note in result.notes:
        console.print(Text(f"Note: {clean(note, 1000)}", style="yellow"))
    console.print(
        Text.assemble("Together ", (f"{result.points:g} of {count_text(result.maximum, 'point')}", "bold"), ".")
    )
    if not (solved or blank_):
        console.print(Text(next_step(result)))


def _here(path: Path | None) -> str:
    """A path relative to the current folder, if possible."""
    if path is None:
        return ""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _table(result: Graded) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("exercise", ratio=1, overflow="fold")
    for kind in VERDICT_KINDS:
        table.add_column(kind, justify="center", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    for report in result.reports:
        card = exercises.card(report.exercise)
        title = Text.assemble((card.title, "bold" if card.kind == "core" else ""), (f"  {card.id}", "dim"))
        if why := why_not(report):
            title.append("\n" + why, style="" if report.state != "not answered" else "dim")
        marks = [Text(mark, style=_STYLES.get(mark, "")) for mark in (mark_of(report, kind) for kind in VERDICT_KINDS)]
        table.add_row(
            title, *marks, Text(f"{report.points:g} / {report.maximum:g}", style="green" if report.passed else "")
        )
    return table


def mark_of(report: Report, kind: VerdictKind) -> str:
    """✓ or ✗ for a kind of verdict that was asked, – where it depends on values that are wrong, nothing where it was
    not asked.
    """
    kinds = report.by_kind()
    if kind not in kinds or report.state in ("crashed", "timed out", "refused"):
        return ""
    if not kinds[kind]:
        return "✗"
    return "✓" if kind == "values" or kinds.get("values", True) else "–"


def why_not(report: Report) -> str:
    """What failed, in the words of the notebook's panel; "" for a pass."""
    if report.passed:
        return ""
    head = HEADLINES.get(report.state, "")
    if report.state == "not answered":
        return head if report.note.startswith(head) else clean(report.note, 900) or head
    if report.state in ("crashed", "timed out", "refused"):
        return clean(report.note, 900) or head
    failed = [(kind, message) for kind, mark, message in rows(report) if mark == "no"]
    said = "\n".join(f"{kind}: {line}" for kind, message in failed for line in message.splitlines()) or report.note
    return clean(f"{head}: {said}" if head and said else said or head, 4000, line=4000)


def next_step(result: Graded) -> str:
    """One sentence: the first core exercise that is not solved, else what comes after the chapter."""
    open_ = [report for report in result.reports if not report.passed]
    core = [report for report in open_ if exercises.card(report.exercise).kind == "core"]
    if core:
        card = exercises.card(core[0].exercise)
        begin = "start with" if core[0].state == "not answered" else "mend"
        return f"Next: {begin} “{card.title}” in {_here(result.path)}; hint({card.id!r}) in the notebook gives a hint."
    if open_:
        card = exercises.card(open_[0].exercise)
        return called_here(
            f"Next: all core exercises are solved. More practice: “{card.title}” ({card.id}); or ./course drill, "
            f"or the next chapter."
        )
    return called_here(
        "Next: everything here is solved. `./course drill` keeps it fresh; `./course learn` opens the next chapter."
    )
