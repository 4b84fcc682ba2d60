"""Grade a class: every submission once, despite crashes, with a message for each submission that a person should look
at.

A submission passes through three states on disk: a report under its key, the notebook for graders, and a row in the
gradebook. Each step is atomic, and a run begins by checking which steps are done. So a run that was killed continues
where it stopped, and a run with nothing left to do changes nothing.
"""

import errno
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_grader.classroom.folder import ClassFolder
from course_grader.judge.decision import LOST
from course_grader.notebooks import read
from course_grader.sandbox.policy import Wall
from course_grader.service.anomalies import alike, answers_in
from course_grader.service.class_lock import Interrupts, held, patiently
from course_grader.service.events import Event, Line, Say, Summary
from course_grader.service.gradebook_queue import NO_ROOM, CannotGoOn, GradebookQueue
from course_grader.service.pool import Crew, Done
from course_grader.service.preparation import hands, require_judged, sweep, wall_of
from course_grader.service.report_cache import all_latest, autograded_path, keep, latest
from course_grader.service.results import Anomaly, Result, Task
from course_grader.service.task import lost, make_task

if TYPE_CHECKING:
    from course_grader.service.gradebook_writer import Known, Writer

IN_A_ROW = 5  # consecutive failures after which the machine is to blame
GRACE = 5.0  # s for running tasks after Ctrl-C


def grade_class(
    folder: ClassFolder,
    *,
    students: Sequence[str] | None = None,
    chapters: Sequence[str] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    no_sandbox: bool = False,
    other_contract: bool = False,
    again: bool = False,
    crew: Crew | None = None,
    say: Say | None = None,
) -> Summary:
    """Grade the submissions that are not graded yet; with `again`, all of them. Trouble for anything that prevents a
    start.
    """
    folder.settings.require_contract(other_contract)
    wanted = tuple(chapters or folder.settings.chapters())
    folder.sources.require_unchanged(wanted)
    for chapter in wanted:
        require_judged(folder, chapter)
    names = tuple(
        student if isinstance(student, str) else student.id for student in students or folder.roster.students()
    )
    wall = wall_of(folder, no_sandbox)
    say = say or (lambda _: None)
    with held(folder, say) as (writer, interrupts):
        sweep(folder.root)
        run = Run(folder, writer, wall, again, say, interrupts)
        with hands(crew, scheduler, jobs) as markers:
            run.through(
                [
                    (chapter, name)
                    for chapter in wanted
                    for name in names
                    if folder.submissions.notebook(name, chapter) is not None
                ],
                markers,
            )
        run.compare(wanted)
    return run.summary


class Run:
    """One run over a class's submissions."""

    def __init__(
        self, folder: ClassFolder, writer: "Writer", wall: Wall | None, again: bool, say: Say, interrupts: Interrupts
    ) -> None:
        self.folder, self.writer, self.wall, self.again, self.say, self.interrupts = (
            folder,
            writer,
            wall,
            again,
            say,
            interrupts,
        )
        self.summary = Summary()
        self.summary.level = wall.level if wall is not None else "none"
        self.known = patiently(writer.known, say)
        self.tasks: dict[str, Task] = {}  # by key: tasks being graded
        self.once_more: deque[Task] = deque()  # tasks whose marker died: each runs alone at the end
        self.retried: set[str] = set()
        self.pending = GradebookQueue(folder, writer, lambda text: self._line("", "", "", text), self._is_written)
        self.done, self.total, self.began = 0, 0, time.monotonic()
        self.in_a_row = 0  # consecutive submissions that could not be graded

    # --- the loop

    def through(self, work: Sequence[tuple[str, str]], crew: Crew) -> None:
        """Grade every (chapter, student), until done, interrupted, or stopped by an error that affects all."""
        todo = deque(work)
        self.total = len(work)
        self.say(Event("start", total=self.total))
        try:
            while (todo or self.tasks or self.once_more or self.pending) and not self.interrupts.asked:
                self._hand_out(todo, crew)
                self.pending.write(wait=not (todo or self.tasks or self.once_more))  # while the markers are at work
                for done in crew.wait(0.2) if self.tasks else ():
                    self._back(done)
            if self.interrupts.asked:
                self._interrupted(crew)
        except KeyboardInterrupt:
            self.summary.interrupted = True
        except CannotGoOn as stop:
            self.summary.problem, self.summary.way_out = stop.problem, stop.way_out
        self._say_end()

    def _hand_out(self, todo: deque[tuple[str, str]], crew: Crew) -> None:
        while todo and crew.free() > 0 and not self.interrupts.asked:
            chapter, student = todo.popleft()
            task = self.needs_judging(student, chapter)
            if task is not None:
                self._start(task, crew)
        if not todo and not self.tasks and self.once_more and crew.free() > 0:
            self._start(self.once_more.popleft(), crew)

    def _start(self, task: Task, crew: Crew) -> None:
        self.tasks[task["key"]] = task
        crew.start(task)

    def needs_judging(self, student: str, chapter: str) -> Task | None:
        """The task of a submission without a report; one with a report only has to be written to the gradebook."""
        task = make_task(self.folder, student, chapter, wall=self.wall)
        known = self.known.get((student, task["assignment"]))
        report = None if self.again else latest(self.folder, student, chapter)
        if (
            report is None
            or report["key"].partition("-")[0] != task["key"]
            or not autograded_path(self.folder, student, chapter).is_file()
        ):
            return task
        if known is not None and known.key == report["key"] and not self._moved(student, chapter, known):
            self.summary.already += 1
            self.one_more(student, chapter)
        else:
            self.pending.append(report)
        return None

    def _moved(self, student: str, chapter: str, known: "Known") -> bool:
        """Whether arrival, due date or late penalty have changed since it was written."""
        from course_grader.service.gradebook_writer import utc

        due = utc(self.folder.settings.due(student, chapter))
        return (
            known.costs_otherwise
            or utc(self.folder.submissions.arrival(student, chapter)) != known.timestamp
            or (due is not None and known.due is not None and due != known.due)
        )

    # --- what comes back

    def _back(self, done: Done) -> None:
        task = self.tasks.pop(done.key)
        result = done.result
        if result is None:
            self._marker_died(task, done.why)
        elif result["state"] == "failed":
            self._failed(task, result["why"])
        else:
            self._keep(result)

    def _keep(self, result: Result) -> None:
        self.in_a_row = 0
        try:
            self.keep(result)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CannotGoOn(f"There is no room left in {self.folder.root}.", NO_ROOM) from error
            raise

    def _marker_died(self, task: Task, why: str) -> None:
        if task["key"] not in self.retried:
            self.retried.add(task["key"])
            self.once_more.append(task)
            self._line(task["student"], task["chapter"], "", f"its marker died ({why}); it is tried once more, alone.")
            return
        self._keep(lost(task, "crashed", f"The grader's process died twice on this notebook ({why})."))

    def _failed(self, task: Task, why: str) -> None:
        if "No space left" in why:
            raise CannotGoOn("There is no room left for temporary files.", NO_ROOM)
        self.in_a_row += 1
        self.summary.not_graded.append(Line(task["student"], task["chapter"], "", why))
        self.one_more(task["student"], task["chapter"])
        if self.in_a_row >= IN_A_ROW:
            raise CannotGoOn(
                f"{IN_A_ROW} submissions in a row could not be graded, for no fault of theirs ({why})",
                "mend that, then the same command again",
            )

    def keep(self, result: Result) -> None:
        """Store a result, report what should be looked at, and queue it for the gradebook."""
        report = keep(self.folder, result)
        self._tell(report)
        self.pending.append(report)

    def _is_written(self, report: Result, by_hand: Sequence[str]) -> None:
        self.written(report, by_hand)
        self.summary.graded += 1
        self.one_more(report["student"], report["chapter"])

    def written(self, report: Result, by_hand: Sequence[str]) -> None:
        """It is in the gradebook; nothing is left to do."""

    def _tell(self, report: Result) -> None:
        """Keep a line for everything that an instructor should look at; the end of the run shows them once."""
        student, chapter = report["student"], report["chapter"]
        lists = {"crashed": self.summary.crashed, "timed out": self.summary.timed_out, "refused": self.summary.refused}
        for each in report["anomalies"]:
            line = Line(
                student,
                chapter,
                each["exercise"],
                f"{each['kind']}: {each['text']}" if each["kind"] in LOST else each["text"],
            )
            lists.get(each["kind"], self.summary.anomalies).append(line)

    # --- saying

    def one_more(self, student: str, chapter: str) -> None:
        self.done += 1
        self.say(Event("done", done=self.done, total=self.total, student=student, chapter=chapter))

    def _line(self, student: str, chapter: str, exercise: str, text: str) -> None:
        self.say(
            Event("line", text if not exercise else f"{exercise}: {text}", self.done, self.total, student, chapter)
        )

    def _interrupted(self, crew: Crew) -> None:
        self.summary.interrupted = True
        self._line(
            "",
            "",
            "",
            f"Stopping: {len(self.tasks)} running submissions may finish within {GRACE:g} s; Ctrl-C again "
            f"stops at once.",
        )
        for done in crew.close(GRACE):
            self._back(done)
        self.pending.write(wait=False)

    def _say_end(self) -> None:
        self.summary.seconds = round(time.monotonic() - self.began, 3)
        if self.summary.interrupted:
            self.summary.way_out = "the same command continues where this one stopped; what is graded stays graded"
        stopped = f"Stopped: {self.summary.problem} Way out: " if self.summary.problem else ""
        self.say(Event("end", stopped + self.summary.way_out, self.done, self.total))

    def compare(self, chapters: Sequence[str]) -> None:
        """After the run: a line for each pair of students with the same answers."""
        if self.summary.interrupted or self.summary.problem or not self.summary.graded:
            return
        for chapter in chapters:
            for each in alike_in(self.folder, chapter):
                self.summary.anomalies.append(Line("", chapter, each["exercise"], each["text"]))


def alike_in(folder: ClassFolder, chapter: str) -> list[Anomaly]:
    """Near-identical answers in a chapter's current reports, without the published ones."""
    return alike(all_latest(folder, chapter), answers_in(read(folder.sources.path(chapter))))
