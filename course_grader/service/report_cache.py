"""Reports on disk: one file for each judged submission, and a record of which is current."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_grader.notebooks import write_whole

LATEST = "latest.json"
_NOT_KEPT = ("autograded",)  # it has a file of its own


def keep(folder: Any, result: dict[str, Any]) -> dict[str, Any]:
    """Store a result: first the notebook to show, then the report, then the mark that it is current. Returns the
    report.
    """
    student, chapter = result["student"], result["chapter"]
    target = autograded_path(folder, student, chapter)
    write_whole(target, result["autograded"])
    report = {name: value for name, value in result.items() if name not in _NOT_KEPT}
    report["graded_at"] = datetime.now(UTC).isoformat(timespec="seconds")
    place = folder.submissions.reports(student, chapter)
    write_whole(place / f"{result['key']}.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    write_whole(place / LATEST, json.dumps({"key": result["key"]}) + "\n")
    return report


def autograded_path(folder: Any, student: str, chapter: str) -> Path:
    """The notebook that formgrader opens."""
    name = folder.settings.assignment(chapter)
    return folder.root / "autograded" / student / name / f"{name}.ipynb"


def report_of(folder: Any, student: str, chapter: str, key: str) -> dict[str, Any] | None:
    """The report with this key; None if there is no complete one."""
    return _read(folder.submissions.reports(student, chapter) / f"{key}.json")


def latest(folder: Any, student: str, chapter: str) -> dict[str, Any] | None:
    """The current report of a student's chapter."""
    said = _read(folder.submissions.reports(student, chapter) / LATEST)
    return report_of(folder, student, chapter, str(said.get("key"))) if said else None


def all_latest(folder: object, chapter: str) -> dict[str, dict[str, Any]]:
    """Student -> current report of a chapter, for all students who have one."""
    return dict(_all_latest(folder, chapter))


def _all_latest(folder: Any, chapter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((folder.root / "reports").glob(f"*/{folder.settings.assignment(chapter)}/{LATEST}")):
        student = path.parent.parent.name
        if (report := latest(folder, student, chapter)) is not None:
            yield student, report


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
