"""Submissions: where they are, when they arrived, and where their reports go."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from course_grader.classroom.json_record import read_record, write_record
from course_grader.classroom.roster import Student, id_of
from course_grader.classroom.settings import Settings, aware


class Arrival(TypedDict, total=False):
    """How a submission arrived; the times are in ISO format."""

    at: str
    by: str
    late: bool
    assumed: bool  # whether no time of arrival was given
    file: str
    sha256: str
    order: list[int]
    collected: str
    notes: list[str]


@dataclass(frozen=True)
class Submissions:
    """The submissions of a class, in nbgrader's layout."""

    settings: Settings

    def folder(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's submission, which may not exist."""
        return self.settings.root / "submitted" / id_of(student) / self.settings.assignment(chapter)

    def notebook(self, student: Student | str, chapter: str) -> Path | None:
        """The notebook that counts; None if there is none."""
        path = self.folder(student, chapter) / f"{self.settings.assignment(chapter)}.ipynb"
        return path if path.is_file() and not path.is_symlink() else None

    def reports(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's judged submissions of a chapter."""
        return self.settings.root / "reports" / id_of(student) / self.settings.assignment(chapter)

    @cached_property
    def _arrivals(self) -> dict[str, dict[str, Arrival]]:
        return read_record(self.settings.root / "arrivals.json")

    def arrival_record(self, student: Student | str, chapter: str) -> Arrival:
        """The record of a submission's arrival; {} if there is none."""
        return self._arrivals.get(id_of(student), {}).get(chapter, {})

    def arrival(self, student: Student | str, chapter: str) -> datetime | None:
        """When a submission arrived, from the LMS, the exchange or the instructor."""
        at = self.arrival_record(student, chapter).get("at")
        return aware(datetime.fromisoformat(at)) if at else None

    def arrival_known(self, student: Student | str, chapter: str) -> bool:
        """Whether somebody said when a submission arrived; otherwise `arrival` is assumed from its being late or
        not."""
        return not self.arrival_record(student, chapter).get("assumed", False)

    def remember_arrival(self, student: Student | str, chapter: str, record: Arrival) -> None:
        """Record how a submission arrived; `save_arrivals` writes it to disk."""
        self._arrivals.setdefault(id_of(student), {})[chapter] = record.copy()

    def save_arrivals(self) -> None:
        """Write the records of arrival atomically."""
        write_record(self.settings.root / "arrivals.json", self._arrivals)
