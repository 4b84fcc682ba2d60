"""What the gradebook takes from a report and from the notebook for graders: a comment for each answer, and the graded
cells.
"""

import json
from collections.abc import Mapping

from nbformat import NotebookNode
from nbgrader import utils

from course_grader.judge.report import ReportData

STATES = {
    "not answered": "No response.",
    "raised": "Raised an error",
    "deadlock": "Deadlock",
    "crashed": "Crashed",
    "timed out": "Timed out",
    "refused": "Refused",
}


def comment_of(report: ReportData) -> str | None:
    """The gradebook's comment on an answer without full points: its state and the first reason."""
    if report["passed"]:
        return None
    if report["state"] == "not answered":
        return STATES["not answered"]
    failed = next((each["message"] for each in report["verdicts"] if not each["ok"] and each["message"]), "")
    head = STATES.get(report["state"], "")
    reason = report["note"] or failed
    return f"{head}: {reason}" if head and reason else head or reason or None


def graded_cells(shown: Mapping[str, object] | None) -> dict[str, NotebookNode]:
    """The graded cells of the notebook for graders, by grade_id."""
    if not shown:
        return {}
    notebook = shown if isinstance(shown, NotebookNode) else json.loads(json.dumps(shown), object_hook=NotebookNode)
    found = {}
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader")
        if meta and (utils.is_grade(cell) or utils.is_solution(cell) or utils.is_task(cell)):
            cell["source"] = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
            found[meta["grade_id"]] = cell
    return found
