"""Reports on disk: one file for each judged submission, and a record of which is current."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from course_grader.classroom.folder import ClassFolder
from course_grader.notebooks import write_whole
from course_grader.service.results import Result

LATEST = "latest.json"


def keep(folder: ClassFolder, result: Result) -> Result:
    """Store a result: first the notebook to show, then the report, then the mark that it is current. Returns the
    report.
    """
    student, chapter = result["student"], result["chapter"]
    target = autograded_path(folder, student, chapter)
    write_whole(target, result["autograded"])
    report = result.copy()
    del report["autograded"]  # it has a file of its own
    report["graded_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    place = folder.submissions.reports(student, chapter)
    write_whole(place / f"{result['key']}.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    write_whole(place / LATEST, json.dumps({"key": result["key"]}) + "\n")
    return report


def autograded_path(folder: ClassFolder, student: str, chapter: str) -> Path:
    """The notebook that formgrader opens."""
    name = folder.settings.assignment(chapter)
    return folder.root / "autograded" / student / name / f"{name}.ipynb"


def report_of(folder: ClassFolder, student: str, chapter: str, key: str) -> Result | None:
    """The report with this key; None if there is no complete one."""
    return _read(folder.submissions.reports(student, chapter) / f"{key}.json")


def latest(folder: ClassFolder, student: str, chapter: str) -> Result | None:
    """The current report of a student's chapter."""
    said = _read(folder.submissions.reports(student, chapter) / LATEST)
    return report_of(folder, student, chapter, str(said.get("key"))) if said else None


def all_latest(folder: ClassFolder, chapter: str) -> dict[str, Result]:
    """Student -> current report of a chapter, for all students who have one."""
    return dict(_all_latest(folder, chapter))


def _all_latest(folder: ClassFolder, chapter: str) -> Iterator[tuple[str, Result]]:
    for path in sorted((folder.root / "reports").glob(f"*/{folder.settings.assignment(chapter)}/{LATEST}")):
        student = path.parent.parent.name
        if (report := latest(folder, student, chapter)) is not None:
            yield student, report


def _read(path: Path) -> Result | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Result(**found) if isinstance(found, dict) else None
