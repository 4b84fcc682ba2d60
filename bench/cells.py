"""How long one waits for a cell: every chapter of the course, solved, in a kernel as a learner's, cell by cell.

`./course bench cells` prints the slowest cells, what the first cell (the imports) of each chapter takes, and how long
checks take: seconds of the clock, and seconds of CPU of the kernel and all that it starts.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import psutil
from jupyter_client.provisioning import LocalProvisioner
from nbclient import NotebookClient
from nbformat import NotebookNode
from rich.console import Console
from rich.progress import track
from rich.table import Table

from course_grader.course_notebooks import sources
from course_grader.notebooks import is_check
from course_lib.folders import ROOT
from course_lib.messages import Trouble

CELL, IMPORTS, CHECK, MEDIAN = (
    5.0,
    2.0,
    3.0,
    0.3,
)  # s that a cell, a chapter's first cell, a check and half of all checks may take

SOON = 2.0  # s within which a cell that takes long shows something


@dataclass(frozen=True, slots=True)
class Ran:
    """A code cell that ran: its seconds of the clock and of CPU, and what it is."""

    chapter: str
    cell: str
    seconds: float
    cpu: float
    is_check: bool
    is_first: bool
    says: bool  # whether it soon showed something, such as how long it takes or how far it is


class Timed(NotebookClient):
    """Executes a notebook and notes what each code cell takes."""

    def __init__(self, notebook: nbformat.NotebookNode, chapter: str, folder: Path) -> None:
        super().__init__(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
        self.chapter = chapter
        self.ran: list[Ran] = []
        self.on_cell_execute, self.on_cell_executed = self._begin, self._end
        self._clock = self._cpu = 0.0
        self._shown: float | None = None

    def process_message(
        self, msg: dict[str, object], cell: nbformat.NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """As of its class; notes when a cell first shows something."""
        if self._shown is None and msg["msg_type"] in ("stream", "display_data", "update_display_data"):
            self._shown = time.perf_counter() - self._clock
        return super().process_message(msg, cell, cell_index)

    def _spent(self) -> float:
        assert self.km is not None and isinstance(self.km.provisioner, LocalProvisioner)
        kernel = psutil.Process(self.km.provisioner.pid)
        own, spent = kernel.cpu_times(), 0.0
        spent += own.user + own.system + own.children_user + own.children_system
        for child in kernel.children(recursive=True):
            try:
                times = child.cpu_times()
                spent += times.user + times.system
            except psutil.NoSuchProcess:
                continue
        return spent

    def _begin(self, cell: nbformat.NotebookNode, cell_index: int) -> None:
        self._clock, self._cpu, self._shown = time.perf_counter(), self._spent(), None

    def _end(self, cell: nbformat.NotebookNode, cell_index: int, execute_reply: object) -> None:
        if cell.cell_type != "code":
            return
        took, spent = time.perf_counter() - self._clock, self._spent() - self._cpu
        says = self._shown is not None and self._shown < min(SOON, took / 2)
        self.ran.append(Ran(self.chapter, cell.id, took, spent, is_check(cell), not self.ran, says))


def timed(chapter: str, path: Path) -> list[Ran]:
    """Run a solved chapter in a new kernel, in an empty folder; CellExecutionError if a cell raises."""
    with TemporaryDirectory(prefix="course-cells-") as folder:
        client = Timed(nbformat.read(path, as_version=4), chapter, Path(folder))
        client.execute()
    return client.ran


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if something takes longer than it may."""
    parser = argparse.ArgumentParser(prog="course bench cells", description=__doc__)
    parser.add_argument("chapters", nargs="*", help="such as 06 12; all without it")
    parser.add_argument("--slowest", type=int, default=10, help="how many of the slowest cells are listed (10)")
    given = parser.parse_args(arguments)
    found = sources(ROOT)
    if missing := set(given.chapters) - set(found):
        raise Trouble(f"There is no chapter {min(missing)}.", f"choose among {', '.join(found)}")
    chosen = {chapter: path for chapter, path in found.items() if not given.chapters or chapter in given.chapters}
    console = Console(width=None if sys.stdout.isatty() else 120)
    ran = [
        each
        for chapter, path in track(chosen.items(), "chapters", console=console, disable=not sys.stdout.isatty())
        for each in timed(chapter, path)
    ]
    table = Table("chapter", "cell", "s", "s of CPU", "", title=f"The slowest of {len(ran)} cells")
    slow = sorted(ran, key=lambda each: -each.seconds)[: given.slowest]
    for each in slow:
        what = "imports" if each.is_first else "check" if each.is_check else "shows how far it is" if each.says else ""
        table.add_row(each.chapter, each.cell, f"{each.seconds:.1f}", f"{each.cpu:.1f}", what)
    console.print(table)
    checks = [each.seconds for each in ran if each.is_check]
    first = [each.seconds for each in ran if each.is_first]
    console.print(
        f"Imports: {statistics.median(first):.1f} s at the median, {max(first):.1f} s at most ({IMPORTS:g} s wanted). "
        f"Checks: {statistics.median(checks):.2f} s at the median ({MEDIAN:g}), {max(checks):.1f} s at most "
        f"({CHECK:g}). Other cells that show nothing soon: at most {max(_quiet(ran), default=0.0):.1f} s ({CELL:g})."
    )
    kept = max(first) <= IMPORTS and max(checks) <= CHECK and statistics.median(checks) <= MEDIAN
    return 0 if kept and max(_quiet(ran), default=0.0) <= CELL else 1


def _quiet(ran: Sequence[Ran]) -> list[float]:
    return [each.seconds for each in ran if not (each.is_first or each.is_check or each.says)]


if __name__ == "__main__":
    raise SystemExit(main())
