"""What the class commands share: the class's folder, moments, chapters, tables."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from course_grader.classroom.folder import ClassFolder

Folder = Annotated[
    Path,
    typer.Option(
        "--folder",
        "-C",
        envvar="COURSE_CLASS",
        help="The class's folder; by default the one that you are in.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
HERE = Path(".")


def opened(path: Path) -> "ClassFolder":
    """The class at a path, with its own exercises known to this process."""
    from course_app.cli.console import part

    return part("course_grader.classroom.folder", "grading a class").ClassFolder.open(path)


def moment(text: str | None) -> datetime | None:
    """A moment that a person typed: "2026-10-12 23:59", or a day, which lasts until its end; this machine's time
    zone."""
    if not text:
        return None
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} cannot be read as a time; write 2026-10-12 23:59, or a day, 2026-10-12, for its end"
        ) from error
    if re.fullmatch(r"\d{4}-?\d\d-?\d\d", text.strip()):
        given = datetime.combine(given.date(), time(23, 59, 59))
    return given if given.tzinfo else given.astimezone()


def numbers(chapters: Iterable[str] | None) -> list[str]:
    """Chapters as people type them ("6", "06", "06_collectives") by their two digits."""
    return [
        found.group().zfill(2) if (found := re.match(r"\d{1,2}(?=_|$)", name.strip("/"))) else name
        for name in chapters or []
    ]


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """A table on the terminal; its text is shown as it is."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(each if isinstance(each, Text) else Text(str(each)) for each in row))
    console = Console(highlight=False)
    Console(highlight=False, width=console.width if console.is_terminal else 120).print(made)


@contextmanager
def ticking(what: str) -> Iterator[Callable[[str], None]]:
    """A line on a terminal's stderr that counts what is done and names the last; nothing elsewhere."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description} {task.completed:.0f}"),
        TextColumn("{task.fields[last]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=None, last="")
        yield lambda last: bar.update(task, advance=1, last=last)


def lines(heading: str, found: Sequence[str]) -> None:
    """A heading and its lines, nothing where there are none."""
    if found:
        typer.echo(f"\n{heading}")
        for line in found:
            typer.echo(f"  - {line}")
