"""The result of grading one notebook: its reports, or why it could not be graded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_grader.clean_text import clean
from course_grader.judge.report import report_dict
from course_grader.records import Report
from course_lib.messages import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The result for one target: its reports, or why it could not be graded."""

    chapter: str
    name: str
    path: Path | None = None
    reports: tuple[Report, ...] = ()
    notes: tuple[str, ...] = ()
    trouble: Trouble | None = None

    @property
    def points(self) -> float:
        """Points earned."""
        return round(sum(report.points for report in self.reports), 2)

    @property
    def maximum(self) -> float:
        """Points available."""
        return sum(report.maximum for report in self.reports)

    @property
    def solved(self) -> bool:
        """Whether it was graded and every exercise has full points."""
        return self.trouble is None and all(report.passed for report in self.reports)

    @property
    def untouched(self) -> bool:
        """Whether it was graded and no exercise is answered."""
        return self.trouble is None and all(
            report.points == 0 and report.state == "not answered" for report in self.reports
        )


def as_data(results: Sequence[Graded]) -> dict[str, object]:
    """Plain JSON data: for each chapter its notebook, points, notes or trouble, and its exercises with their
    verdicts."""
    return {
        "chapters": [
            {
                "chapter": result.chapter,
                "name": result.name,
                "notebook": str(result.path) if result.path else None,
                "points": result.points,
                "maximum": result.maximum,
                "notes": [clean(note, 1000) for note in result.notes],
                "trouble": None
                if result.trouble is None
                else {"problem": result.trouble.problem, "way_out": result.trouble.way_out},
                "exercises": [report_dict(report) for report in result.reports],
            }
            for result in results
        ]
    }
