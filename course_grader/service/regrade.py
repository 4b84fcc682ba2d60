"""Judge one exercise of a class again: old and new points; no student loses points unless that is requested."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from course_grader.classroom.folder import ClassFolder
from course_grader.committed_form import CHECK_SUFFIX
from course_grader.exercises import class_exercises
from course_grader.judge.report import ReportData, report_of_dict
from course_grader.notebooks import read
from course_grader.sandbox.policy import Wall
from course_grader.service import grading, preparation
from course_grader.service.autograded import outputs_of, text_of
from course_grader.service.class_lock import Interrupts, held
from course_grader.service.events import Say
from course_grader.service.pool import Crew
from course_grader.service.report_cache import autograded_path, keep, latest
from course_grader.service.results import Result, Task
from course_grader.service.task import make_task
from course_lib.messages import Trouble

if TYPE_CHECKING:
    from course_grader.service.gradebook_writer import Writer


@dataclass(frozen=True, slots=True)
class Change:
    """The result of judging one exercise of one submission again."""

    student: str
    chapter: str
    exercise: str
    old: float
    new: float
    kept_by: Literal["", "higher before", "set by hand"]
    why: str  # the state or first reason, where points are missing


class Stopped(Trouble):
    """What ended a regrading early, and the changes made so far; the next run does not report them again."""

    def __init__(self, problem: str, way_out: str, changes: tuple[Change, ...], exit_code: int) -> None:
        super().__init__(problem, way_out)
        self.changes, self.exit_code = changes, exit_code


def regrade_exercise(
    folder: ClassFolder,
    exercise: str,
    *,
    students: Sequence[str] | None = None,
    lower: bool = False,
    jobs: int | None = None,
    no_sandbox: bool = False,
    crew: Crew | None = None,
    say: Say | None = None,
) -> tuple[Change, ...]:
    """Judge one exercise of every graded submission again. Lower points are not applied without `lower`; points set by
    hand never change.

    Trouble if nothing was graded yet; Stopped if the run ended early: what was regraded so far is kept.
    """
    if any(folder.exercises.overlay.glob("*/card.py")):
        class_exercises.use(folder.exercises.overlay)
    chapter = _chapter_of(folder, exercise)
    folder.sources.require_unchanged([chapter])
    names = (
        [folder.roster.student(name).id for name in students]
        if students
        else [student.id for student in folder.roster.students()]
    )
    graded = [
        name
        for name in names
        if latest(folder, name, chapter) is not None and folder.submissions.notebook(name, chapter) is not None
    ]
    if not graded:
        raise Trouble(f"Nothing of chapter {chapter} is graded yet.", "`./course class grade` grades it")
    wall = preparation.wall_of(folder, no_sandbox)
    say = say or (lambda _: None)
    with held(folder, say) as (writer, interrupts):
        run = _Regrade(folder, writer, wall, exercise, lower, say, interrupts)
        with preparation.hands(crew, None, jobs) as markers:
            run.through([(chapter, name) for name in graded], markers)
    changes = tuple(sorted(run.changes, key=lambda change: change.student))
    if run.summary.exit_code:
        failed = (
            "Could not be judged again: "
            + "; ".join(f"{line.student} ({line.text})" for line in run.summary.not_graded)
            if run.summary.not_graded
            else ""
        )
        done = f"Interrupted: {len(changes)} of {len(graded)} are judged again." if run.summary.interrupted else failed
        raise Stopped(
            run.summary.problem or done, run.summary.way_out or "the same command again", changes, run.summary.exit_code
        )
    return changes


def _chapter_of(folder: ClassFolder, exercise: str) -> str:
    """The chapter of the class in which an exercise counts; Trouble suggests similar names."""
    counts = {name: chapter for chapter in folder.settings.chapters() for name in folder.exercises.chosen(chapter)}
    if exercise not in counts:
        near = get_close_matches(exercise, counts, n=3, cutoff=0.4)
        raise Trouble(
            f"{exercise!r} is no exercise that counts in {folder.settings.name}.",
            f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(counts)}",
        )
    return counts[exercise]


class _Regrade(grading.Run):
    """A run that judges one exercise and replaces its earlier result."""

    def __init__(
        self,
        folder: ClassFolder,
        writer: "Writer",
        wall: Wall | None,
        exercise: str,
        lower: bool,
        say: Say,
        interrupts: Interrupts,
    ) -> None:
        super().__init__(folder, writer, wall, True, say, interrupts)
        self.exercise, self.lower = exercise, lower
        self.changes: list[Change] = []

    def needs_judging(self, student: str, chapter: str) -> Task | None:
        """Always, and only this exercise; but not for a submission that arrived since and is not graded yet."""
        task = make_task(self.folder, student, chapter, wall=self.wall, only=(self.exercise,))
        if (latest(self.folder, student, chapter) or {}).get("notebook_sha256") == task["notebook_sha256"]:
            return task
        self._line(student, chapter, "", "other work was handed in since: `./course class grade` judges it whole")
        self.one_more(student, chapter)
        return None

    def keep(self, result: Result) -> None:
        """The earlier report with this exercise as judged now, under a key that marks it as later.

        If the class now gives more points for it, the points earned count as the same fraction of the new maximum.
        """
        student, chapter = result["student"], result["chapter"]
        before = latest(self.folder, student, chapter) or {}
        old = next((each for each in before["reports"] if each["id"] == self.exercise), None)
        new = next((each for each in result["reports"] if each["id"] == self.exercise), None)
        if new is None:
            return self.one_more(student, chapter)
        had = float(old["points"]) if old is not None else 0.0
        worth = max(had, round(had * new["maximum"] / old["maximum"], 2)) if old is not None and old["maximum"] else had
        stays = not self.lower and new["points"] < worth
        why = (
            ""
            if new["passed"]
            else new["note"] or next((each["message"] for each in new["verdicts"] if not each["ok"]), new["state"])
        )
        self.changes.append(
            Change(student, chapter, self.exercise, had, float(new["points"]), "higher before" if stays else "", why)
        )
        counts: ReportData = {**old, "points": worth, "maximum": new["maximum"]} if old and stays else new
        if old and old == {**counts, "seconds": old["seconds"]}:
            return self.one_more(student, chapter)
        key = self._key(student, chapter, before, counts)
        shown = self._shown(student, chapter, key, counts)
        self.store({**merged(before, counts, had), "key": key, "autograded": shown})
        return None

    def _key(self, student: str, chapter: str, before: Result, new: ReportData) -> str:
        """The key of the new report. It begins with the key that `class grade` would use, so that `class grade` treats
        it as graded, if all exercises have the class's points.
        """
        points = self.folder.exercises.points(chapter)
        if {each["id"]: each["maximum"] for each in (*before["reports"], new)} != points:
            return next_key(before["key"])
        return next_key(before["key"], make_task(self.folder, student, chapter, wall=self.wall)["key"])

    def _shown(self, student: str, chapter: str, key: str, new: ReportData) -> str:
        """The notebook for graders with this exercise's new result."""
        notebook = read(autograded_path(self.folder, student, chapter))
        notebook["metadata"]["course"]["key"] = key
        for cell in notebook["cells"]:
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == self.exercise + CHECK_SUFFIX:
                cell["metadata"]["nbgrader"]["points"] = new["maximum"]
                cell["outputs"] = outputs_of(report_of_dict(new))
        return text_of(notebook)

    def written(self, report: Result, by_hand: Sequence[str]) -> None:
        """Report where the score that counts was set by hand."""
        if self.exercise + CHECK_SUFFIX in by_hand:
            self.changes = [
                change
                if change.student != report["student"]
                else Change(
                    change.student, change.chapter, change.exercise, change.old, change.new, "set by hand", change.why
                )
                for change in self.changes
            ]

    def store(self, report: Result) -> None:
        """Keep a report on disk and queue it for the gradebook."""
        self.pending.append(keep(self.folder, report))


def merged(before: Result, new: ReportData, had: float) -> Result:
    """A report with one exercise replaced or added, and a note of what changed."""
    reports = [new if each["id"] == new["id"] else each for each in before["reports"]]
    reports += [] if new in reports else [new]
    change = {"exercise": new["id"], "old": had, "new": new["points"]}
    return {
        **before,
        "reports": reports,
        "changes": [*before.get("changes", ()), change],
        "points": round(sum(each["points"] for each in reports), 2),
        "maximum": sum(each["maximum"] for each in reports),
    }


def next_key(key: str, base: str = "") -> str:
    """ "abc" -> "abc-r1" -> "abc-r2": the same submission, judged later; with another base if one is given."""
    before, _, turn = key.partition("-r")
    return f"{base or before}-r{int(turn or 0) + 1}"
