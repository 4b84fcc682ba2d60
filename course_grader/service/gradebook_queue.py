"""Reports to be written to the gradebook, in order, waiting while another program locks it."""

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from course_grader.classroom.folder import ClassFolder
from course_grader.service.class_lock import PATIENCE, TRY_AGAIN, WAITING
from course_grader.service.gradebook_errors import Full, Locked
from course_grader.service.report_cache import autograded_path
from course_grader.service.results import Result
from course_lib.messages import count_text

if TYPE_CHECKING:
    from course_grader.service.gradebook_writer import Writer

NO_ROOM = "free some room, then the same command again: what is graded stays graded, and nothing is judged twice"


class CannotGoOn(Exception):
    """An error that every further submission would hit too."""

    def __init__(self, problem: str, way_out: str) -> None:
        super().__init__(problem)
        self.problem, self.way_out = problem, way_out


class GradebookQueue:
    """Reports that are not in the gradebook yet. `written` is called for each one that is, with the cells set by
    hand."""

    def __init__(
        self,
        folder: ClassFolder,
        writer: "Writer",
        say: Callable[[str], None],
        written: Callable[[Result, Sequence[str]], None],
    ) -> None:
        self.folder, self.writer, self.say, self.written = folder, writer, say, written
        self.reports: deque[Result] = deque()
        self.locked_since: float | None = None
        self.next_try = 0.0

    def __len__(self) -> int:
        return len(self.reports)

    def append(self, report: Result) -> None:
        """Add a report."""
        self.reports.append(report)

    def write(self, wait: bool) -> None:
        """Write what can be written. If the gradebook is locked, wait while grading goes on."""
        while self.reports and time.monotonic() >= self.next_try:
            report = self.reports[0]
            try:
                by_hand = self._write(report)
            except Locked as error:
                self._locked(error)
                break
            except Full as error:
                raise CannotGoOn("There is no room left for the gradebook.", NO_ROOM) from error
            self.written(report, by_hand)
            self.reports.popleft()
            if self.locked_since is not None:
                self.say("The gradebook is free again.")
            self.locked_since = None
        if self.reports and wait:
            time.sleep(0.05)

    def _locked(self, error: Exception) -> None:
        now = time.monotonic()
        self.next_try = now + TRY_AGAIN
        if self.locked_since is None:
            self.locked_since = now
            self.say(WAITING)
        elif now - self.locked_since > PATIENCE:
            raise CannotGoOn(
                f"The gradebook has been locked by another program for {PATIENCE:g} s; judged and not in it: "
                f"{count_text(len(self), 'submission')}.",
                "end that program, then the same command again: nothing is judged twice",
            ) from error

    def _write(self, report: Result) -> Sequence[str]:
        """Write one report; returns the cells whose score was set by hand."""
        student, chapter = report["student"], report["chapter"]
        record = next((each for each in self.folder.roster.students() if each.id == student), None)
        shown = json.loads(autograded_path(self.folder, student, chapter).read_text(encoding="utf-8"))
        done = self.writer.write(
            report,
            shown,
            student=asdict(record) if record is not None else None,
            arrival=self.folder.submissions.arrival(student, chapter),
            due=self.folder.settings.due(student, chapter),
        )
        return done.by_hand
