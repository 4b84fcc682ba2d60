"""What students handed in: where it lies, our record of when it came, and where its reports go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from course_lib.grading.classroom.json_record import read_record, write_record
from course_lib.grading.classroom.roster import Student, id_of
from course_lib.grading.classroom.settings import Settings, aware


@dataclass(frozen=True)
class Submissions:
    """The submissions of a class, in nbgrader's own layout."""

    settings: Settings

    def folder(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's submission, whether or not it is there."""
        return self.settings.root / "submitted" / id_of(student) / self.settings.assignment(chapter)

    def notebook(self, student: Student | str, chapter: str) -> Path | None:
        """The notebook that counts, None where there is none."""
        path = self.folder(student, chapter) / f"{self.settings.assignment(chapter)}.ipynb"
        return path if path.is_file() and not path.is_symlink() else None

    def reports(self, student: Student | str, chapter: str) -> Path:
        """The folder of a student's judged submissions of a chapter."""
        return self.settings.root / "reports" / id_of(student) / self.settings.assignment(chapter)

    @cached_property
    def _arrivals(self) -> dict[str, Any]:
        return read_record(self.settings.root / "arrivals.json")

    def arrival_record(self, student: Student | str, chapter: str) -> dict[str, Any]:
        """All that we noted when a submission arrived: at, by, late, file, sha256, notes; {} where none did."""
        return self._arrivals.get(id_of(student), {}).get(chapter, {})

    def arrival(self, student: Student | str, chapter: str) -> datetime | None:
        """When a submission arrived: the LMS's or exchange's record, or what the instructor said."""
        at = self.arrival_record(student, chapter).get("at")
        return aware(datetime.fromisoformat(at)) if at else None

    def remember_arrival(self, student: Student | str, chapter: str, record: Mapping[str, Any]) -> None:
        """Note how a submission arrived; `save_arrivals` writes it down."""
        self._arrivals.setdefault(id_of(student), {})[chapter] = dict(record)

    def save_arrivals(self) -> None:
        """Write our record of arrivals in one piece."""
        write_record(self.settings.root / "arrivals.json", self._arrivals)
