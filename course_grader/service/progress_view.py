"""A run in a terminal: progress, speed, time left, and a line for everything that needs attention."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from course_grader.clean_text import clean
from course_grader.service.events import Event, Line, Summary


@contextlib.contextmanager
def progress(console: Console | None = None) -> Iterator[Callable[[Event], None]]:
    """The `say` argument of `grade_class`: a progress bar in a terminal, lines elsewhere. Both go to stderr."""
    console = console or Console(stderr=True, highlight=False)
    columns = (
        TextColumn("grading"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, rate="")

        def say(event: Event) -> None:
            if event.kind == "line":  # what `show` says at the end is not said here too
                bar.console.print(line_of(event), soft_wrap=True)
            if event.kind in ("start", "done"):
                speed = bar.tasks[0].speed
                bar.update(task, total=event.total, completed=event.done, rate=f"{speed:.1f}/s" if speed else "")

        yield say


def line_of(event: Event) -> Text:
    """One line: the submission, then the message."""
    whose = " ".join(part for part in (event.student, event.chapter) if part)
    return Text.assemble((f"{clean(whose, 200)}: " if whose else "", "bold"), clean(event.text.replace("\n", " "), 600))


def show(summary: Summary, console: Console | None = None) -> None:
    """The end of a run: how many, how fast, and what to look at."""
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    each = f", {summary.seconds / summary.graded:.2g} s each" if summary.graded else ""
    already = f"; {summary.already} were graded already" if summary.already else ""
    console.print(
        Text.assemble(
            (f"{summary.graded} graded", "bold"),
            f" in {summary.seconds:.1f} s{each}{already}. Sandbox: {summary.level}.",
        )
    )
    if not (summary.graded or summary.already or summary.not_graded or summary.problem or summary.interrupted):
        console.print("Nothing is handed in yet: `./course class collect` takes it in.")
    groups = {
        "not graded": summary.not_graded,
        "refused": summary.refused,
        "crashed": summary.crashed,
        "timed out": summary.timed_out,
        "to look at": summary.anomalies,
    }
    for title, lines in groups.items():
        if lines:
            console.print(_table(title, lines))
    if summary.problem:
        console.print(Text(f"Stopped: {summary.problem}", style="red"))
    if summary.way_out:
        console.print(Text(f"Way out: {summary.way_out}."))


def _table(title: str, lines: list[Line]) -> Table:
    table = Table(title=f"{title} ({len(lines)})", title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(
            clean(line.student, 60),
            line.chapter,
            Text(clean(f"{line.exercise}: {line.text}" if line.exercise else line.text, 600)),
        )
    return table
