"""One exercise of a class judged anew: old points and new ones, and nobody loses any unless that is meant."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from course_lib import exercises
from course_lib.exercises import overlay
from course_lib.grading.service import grading
from course_lib.grading.service.autograded import outputs_of, text_of
from course_lib.grading.service.events import Say
from course_lib.grading.service.hold import held
from course_lib.grading.service.pool import Crew
from course_lib.grading.service.reports import autograded_path, keep, latest
from course_lib.grading.service.task import make_task
from course_lib.grading.tidy import CHECK_SUFFIX
from course_lib.install import Trouble
from course_lib.learner.notebooks import read
from course_lib.records import Report, Verdict


@dataclass(frozen=True, slots=True)
class Change:
    """What judging one exercise of one submission anew gave."""

    student: str
    chapter: str
    exercise: str
    old: float
    new: float
    kept_by: Literal["", "higher before", "set by hand"]
    why: str  # the state or first reason, where points are missing


def regrade_exercise(
    folder: Any, exercise: str, *, students: Sequence[str] | None = None, lower: bool = False, jobs: int | None = None,
    no_sandbox: bool = False, crew: Crew | None = None, say: Say | None = None,
) -> tuple[Change, ...]:
    """Judge one exercise of every graded submission anew. Points that fell stay without `lower`; those set by hand always.

    Trouble where nothing was graded yet, or where something stopped it: what is regraded by then stays so.
    """
    if any(folder.overlay.glob("*/card.py")):
        overlay.use(folder.overlay)
    chapter = exercises.card(exercise).chapter
    folder.require_sources([chapter])
    if exercise not in folder.chosen(chapter):
        raise Trouble(f"{exercise!r} is no exercise of this class.", f"it has {', '.join(folder.chosen(chapter))} in chapter {chapter}")
    names = [student.id for student in folder.students() if not students or student.id in students]
    graded = [name for name in names if latest(folder, name, chapter) is not None and folder.submitted(name, chapter) is not None]
    if not graded:
        raise Trouble(f"Nothing of chapter {chapter} is graded yet.", "`./course class grade` grades it")
    wall = grading.wall_of(folder, no_sandbox)
    say = say or (lambda _: None)
    with held(folder, say) as (writer, interrupts):
        run = _Regrade(folder, writer, wall, exercise, lower, say, interrupts)
        with grading.hands(crew, None, jobs) as markers:
            run.through([(chapter, name) for name in graded], markers)
    if run.summary.problem or run.summary.interrupted:
        raise Trouble(run.summary.problem or "Interrupted: some submissions are not regraded.", run.summary.way_out)
    return tuple(sorted(run.changes, key=lambda change: change.student))


class _Regrade(grading.Run):
    """A run that judges one exercise, and puts what it finds in place of what was found before."""

    def __init__(self, folder: Any, writer: Any, wall: Any, exercise: str, lower: bool, say: Say, interrupts: Any) -> None:
        super().__init__(folder, writer, wall, True, say, interrupts)
        self.exercise, self.lower = exercise, lower
        self.changes: list[Change] = []

    def needs_judging(self, student: str, chapter: str) -> dict[str, Any] | None:
        """Always, and only this exercise."""
        return make_task(self.folder, student, chapter, wall=self.wall, only=(self.exercise,))

    def keep(self, result: dict[str, Any]) -> None:
        """The report before with this exercise as it is judged now, under a key that says it is a later one."""
        student, chapter = result["student"], result["chapter"]
        before = latest(self.folder, student, chapter) or {}
        old = next((each for each in before["reports"] if each["id"] == self.exercise), None)
        new = next((each for each in result["reports"] if each["id"] == self.exercise), None)
        if new is None:
            return self.one_more(student, chapter)
        had = float(old["points"]) if old is not None else 0.0
        stays = not self.lower and new["points"] < had
        why = "" if new["passed"] else new["note"] or next((each["message"] for each in new["verdicts"] if not each["ok"]), new["state"])
        self.changes.append(Change(student, chapter, self.exercise, had, float(new["points"]), "higher before" if stays else "", why))
        if stays or old == {**new, "seconds": (old or {}).get("seconds")}:
            return self.one_more(student, chapter)
        self.store({**merged(before, new, had), "autograded": self._shown(student, chapter, before, new)})
        return None

    def _shown(self, student: str, chapter: str, before: dict[str, Any], new: dict[str, Any]) -> str:
        """The notebook for graders with this exercise's outcome in it."""
        notebook = read(autograded_path(self.folder, student, chapter))
        notebook["metadata"]["course"]["key"] = next_key(before["key"])
        for cell in notebook["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == self.exercise + CHECK_SUFFIX:
                cell["metadata"]["nbgrader"]["points"] = new["maximum"]
                cell["outputs"] = outputs_of(report_of_dict(new))
        return text_of(notebook)

    def written(self, report: dict[str, Any], by_hand: Sequence[str]) -> None:
        """Say where the score that counts was set by hand."""
        if self.exercise + CHECK_SUFFIX in by_hand:
            self.changes = [
                change if change.student != report["student"] else Change(
                    change.student, change.chapter, change.exercise, change.old, change.new, "set by hand", change.why)
                for change in self.changes
            ]  # fmt: skip

    def store(self, report: dict[str, Any]) -> None:
        """Keep a report on disk and put it in line for the gradebook."""
        self.pending.append(keep(self.folder, report))


def merged(before: dict[str, Any], new: dict[str, Any], had: float) -> dict[str, Any]:
    """A report with one exercise replaced, and what changed noted in it."""
    reports = [new if each["id"] == new["id"] else each for each in before["reports"]]
    change = {"exercise": new["id"], "old": had, "new": new["points"]}
    return {
        **before, "key": next_key(before["key"]), "reports": reports, "changes": [*before.get("changes", ()), change],
        "points": round(sum(each["points"] for each in reports), 2), "maximum": sum(each["maximum"] for each in reports),
    }  # fmt: skip


def next_key(key: str) -> str:
    """ "abc" -> "abc-r1" -> "abc-r2": the same submission, judged later."""
    base, _, turn = key.partition("-r")
    return f"{base}-r{int(turn or 0) + 1}"


def report_of_dict(data: dict[str, Any]) -> Report:
    """A report from its JSON data."""
    names = ("kind", "part", "ok", "message", "mistake", "case")
    verdicts = tuple(Verdict(**{name: each[name] for name in names}) for each in json.loads(json.dumps(data["verdicts"])))
    return Report(exercise=data["id"], state=data["state"], points=data["points"], maximum=data["maximum"], verdicts=verdicts, note=data["note"])
