"""Grade one notebook: its cells run in a worker, and its exercises are judged from outside.

Where workers are forked, a notebook runs at most twice. The quick pass judges every exercise in the notebook's own
process, as in a learner's kernel, and keeps only what passes. What fails there may be another exercise's fault, so the
isolated pass judges it again in a notebook in which nothing was judged before, on a clone of its own. That result is
final. Forking and ending a clone costs as much as judging a few exercises, which is why the quick pass comes first.

In the isolated pass, a cell or exercise that ends the worker is left out and the notebook starts again without it.
Exercises that were already judged keep their reports. The number of restarts is bounded, because each one leaves
something out.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from course_grader.blank_notebook import STUB
from course_grader.exercises import Card
from course_grader.files_beside import copy_of
from course_grader.judge.closed_words import closed, types_only
from course_grader.judge.confirmed_memory import confirm_memory, needs_confirmation
from course_grader.judge.decision import as_it_is, decide
from course_grader.judge.exercise import Exercise, resolve
from course_grader.judge.explanation import EXPLAIN_SECONDS, explain, needs_explanation
from course_grader.judge.report import cleaned, lost_report, refused_report
from course_grader.judging import Params
from course_grader.records import Outcome, Report
from course_grader.sandbox.policy import Wall
from course_grader.submission import Sign, Step, Submission
from course_grader.worker.in_worker import InWorker, Lost, names_there, run_cell
from course_grader.worker.rank_processes import RankProcesses
from course_grader.worker.worker_pool import WorkerHandle, WorkerPool

NOTEBOOK_SECONDS = Wall(
    level="none"
).notebook_seconds  # for all cells and cases together, without a wall that says otherwise
QUICK_SECONDS, QUICK_CELL_SECONDS = (
    2.0,
    10.0,
)  # for a case and a cell of the first time; the second time has as long as it may
QUICK_TIMES = 3  # that the first time begins anew
QUICK_SHARE = 0.25  # of a notebook's time, which the first time may take on top of it


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedNotebook:
    """A notebook's reports in the order of the chapter, with notes for the reader."""

    reports: tuple[Report, ...]
    notes: tuple[str, ...] = ()
    signs: tuple[Sign, ...] = ()  # what an instructor should know: later answers that count, cells that were left out
    errors: frozenset[str] = frozenset()  # what workers said went wrong, word for word: not to be shown in a class


class Options(TypedDict, total=False):
    """Keywords of `grade_notebook`."""

    beside: Path | None
    params: Mapping[str, Params] | None
    secret: str
    deciding_ranks: bool
    others: Mapping[str, Mapping[str, Params]] | None
    limits: Wall | None
    closed_words: bool


def grade_notebook(
    submission: Submission,
    cards: Sequence[Card],
    pool: WorkerPool,
    *,
    beside: Path | None = None,
    params: Mapping[str, Params] | None = None,
    secret: str = "public",
    deciding_ranks: bool = False,
    others: Mapping[str, Mapping[str, Params]] | None = None,
    limits: Wall | None = None,
    closed_words: bool = False,
) -> GradedNotebook:
    """Judge every exercise of a submission. `beside` is the notebook's folder; the worker gets a copy of it.

    `params` are this student's numbers (exercise -> parameters). `others` are those of other students (exercise -> who
    -> parameters): a wrong answer that is right for theirs gets a note. With `deciding_ranks`, cluster exercises are
    decided by runs with one process per rank, as in a class. `limits` bound the time of cells, cases and the whole
    notebook; by default they are those of the pool's sandbox. With `closed_words`, as in a class, reports quote nothing
    that an answer returned or raised.
    """
    limits = limits or pool.wall or Wall(level="none")
    pool.wait_ready()  # which is not the submission's time
    grading = _Grading(
        submission, cards, pool, limits, params or {}, secret, others or {}, deciding_ranks, closed_words
    )
    if pool.forks:
        grading.quick_pass(beside, time.monotonic() + QUICK_SHARE * limits.notebook_seconds)
    until = time.monotonic() + limits.notebook_seconds
    with copy_of(beside) as folder:
        while not grading.isolated_pass(folder, until):
            pass
    return GradedNotebook(
        reports=tuple(grading.reports[name] for name in submission.exercises),
        notes=tuple(grading.notes),
        signs=tuple(grading.signs),
        errors=frozenset(grading.said),
    )


class _Grading:
    """A notebook being graded, and what is known about it after each pass."""

    def __init__(
        self,
        submission: Submission,
        cards: Sequence[Card],
        pool: WorkerPool,
        limits: Wall,
        params: Mapping[str, Params],
        secret: str,
        others: Mapping[str, Mapping[str, Params]],
        deciding_ranks: bool,
        closed_words: bool,
    ) -> None:
        self.submission, self.pool, self.limits = submission, pool, limits
        self.cards = {card.id: card for card in cards}
        self.params, self.secret, self.others = params, secret, others
        self.deciding_ranks, self.closed_words = deciding_ranks, closed_words
        self.said: set[str] = set()  # by workers, word for word
        self.reports: dict[str, Report] = {}
        self.notes: list[str] = []
        self.signs: list[Sign] = []
        self.left_out: set[int] = set()  # steps that are not taken again
        self.judged: set[int] = (
            set()
        )  # judge steps that are done; an exercise may have several, and its best one counts
        self.errors = {  # exercise -> how its answer cell went
            name: Outcome(state="not answered", error=why) for name, why in submission.missing.items()
        }

    # --- the two passes

    def quick_pass(self, beside: Path | None, until: float) -> None:
        """Run the notebook without clones. Keep the reports of exercises that pass or are plainly not answered.

        An exercise that ends the process is left to the isolated pass, and the others run without it.
        """
        skipped = set(self.submission.missing)
        for _ in range(QUICK_TIMES):
            with copy_of(beside) as folder, self.pool.worker(folder) as worker, closing(RankProcesses(worker)) as ranks:
                for index, step in enumerate(self.submission.steps):
                    if time.monotonic() > until:
                        return
                    try:
                        if step.do == "run":
                            run_cell(worker, step.source, min(QUICK_CELL_SECONDS, self.limits.cell_seconds))
                        elif step.exercise not in skipped and step.exercise not in self.reports:
                            self._judge_quickly(worker, ranks, step.exercise, index)
                    except Lost:
                        skipped.add(step.exercise)
                        break
                else:
                    return
            if step.do == "run":
                return

    def isolated_pass(self, folder: Path, until: float) -> bool:
        """Run the notebook once, with a clone for each exercise; whether it reached its end. If not, the cause is left
        out of the next run.
        """
        if not any(self._is_open(index) for index in range(len(self.submission.steps))):
            return True
        with self.pool.worker(folder) as worker, closing(RankProcesses(worker)) as ranks:
            for index, step in enumerate(self.submission.steps):
                if index in self.left_out or (step.do == "judge" and not self._is_open(index)):
                    continue
                if time.monotonic() > until:
                    self._out_of_time()
                    return True
                try:
                    if step.do == "run":
                        self._run(worker, step, until)
                    else:
                        self.judged.add(index)
                        self._judge_once_more(worker, ranks, step)
                except Lost as lost:
                    self.left_out.add(index)
                    self._say_lost(step, lost)
                    return False
        return True

    def _is_open(self, index: int) -> bool:
        """Whether this step judges an exercise and can still change its points."""
        step = self.submission.steps[index]
        if step.do != "judge" or index in self.judged:
            return False
        report = self.reports.get(step.exercise)
        return report is None or not report.passed

    def _close(self, name: str) -> None:
        """Do not judge this exercise again: its report is final."""
        self.judged |= {
            at for at, step in enumerate(self.submission.steps) if step.do == "judge" and step.exercise == name
        }

    # --- one step

    def _run(self, worker: WorkerHandle, step: Step, until: float) -> None:
        """Run one cell. An error in an answer cell is kept for its exercise."""
        outcome = run_cell(worker, step.source, min(self.limits.cell_seconds, max(until - time.monotonic(), 1.0)))
        if step.whose == "answer" and outcome.state != "answered":
            self.said.add(outcome.error)
            words = self._words(step.exercise)
            self.errors[step.exercise] = _with_conflict(step, replace(outcome, error=words(outcome.error)))

    def _words(self, exercise: str) -> Callable[..., str]:
        """What a report says of a worker's words about an exercise, which are kept in `said`."""
        source = "\n".join(s.source for s in self.submission.steps if s.do == "run" and s.exercise == exercise)
        words = closed(source) if self.closed_words else as_it_is

        def told(text: str, ranks: int = 0) -> str:
            self.said.add(text)
            return words(text, ranks)

        return told

    def _report_of(self, exercise: Exercise, runner: InWorker) -> Report:
        """The judge's report. If the judge itself fails on the answer, the report says so and the exercise gets no
        points."""
        with runner, types_only() if self.closed_words else nullcontext():
            try:
                report = cleaned(decide(exercise, runner, self._words(exercise.card.id)))
            except Exception as error:  # what an answer returns must never end the marking of the others
                report = refused_report(exercise.card, error)
            runner.settle()
        if runner.lost is not None:
            report = replace(report, state=runner.lost.state, points=0.0, note=runner.lost.words)
        return report

    def _judge_quickly(self, worker: WorkerHandle, ranks: RankProcesses, name: str, index: int) -> None:
        """Judge one exercise in the notebook's own process; Lost if that process cannot go on."""
        if not all(names_there(worker, self.cards[name].answers)[0]):
            return
        try:
            exercise = self._resolved(name)
        except Exception:  # the isolated pass says so
            return
        seconds = min(QUICK_SECONDS, self.limits.case_seconds)
        runner = InWorker(worker, ranks=ranks if self.deciding_ranks else None, most_seconds=seconds, clone=False)
        report = self._report_of(exercise, runner)
        if runner.lost is not None:
            raise runner.lost
        if report.passed and self.deciding_ranks and needs_confirmation(exercise, report):
            report = self._weighed(worker, ranks, exercise, report, runner.packed)
            if not report.passed:
                ranks.close()  # one of them may still be at it
        again = any(s.do == "judge" and s.exercise == name for s in self.submission.steps[index + 1 :])
        if report.passed or (report.state == "not answered" and self._is_stub(name) and not again):
            self.reports[name] = report
            self._close(name)
            if report.passed and any(s.do == "judge" and s.exercise == name for s in self.submission.steps[:index]):
                self._note_better(self.submission.steps[index])

    def _judge_once_more(self, worker: WorkerHandle, ranks: RankProcesses, step: Step) -> None:
        """Judge one exercise. Where the notebook has several answers to it, keep the better report."""
        earlier = self.reports.pop(step.exercise, None)
        try:
            self._judge(worker, ranks, step.exercise)
        finally:
            now = self.reports.get(step.exercise)
            if earlier is None:
                pass
            elif now is None or not _is_better(now, earlier):
                self.reports[step.exercise] = earlier
            elif now.points > earlier.points:
                self._note_better(step)

    def _note_better(self, step: Step) -> None:
        title = self.cards[step.exercise].title
        text = f"“{title}” earned more after {step.where} than at its first check, and that counts."
        self.notes.append(text)
        self.signs.append(Sign("later answer", step.exercise, text))

    def _judge(self, worker: WorkerHandle, ranks: RankProcesses, name: str) -> None:
        """Judge one exercise on what the notebook has defined so far."""
        card, missing, wrote = self.cards[name], name in self.submission.missing, self.errors.get(name)
        there, own = names_there(worker, card.answers)
        if not all(there) or (missing and not all(own)):
            absent = next((answer for answer, has in zip(card.answers, there, strict=True) if not has), card.answers[0])
            reason = wrote or Outcome(
                state="raised", error=f"The answer cell does not define `{absent}`: keep the names that it came with."
            )
            self.reports[name] = lost_report(card, reason.state, reason.error)
            return
        if missing:
            names = ", ".join(f"`{answer}`" for answer in card.answers)
            self.notes.append(
                f"{wrote.error if wrote else ''} But one of your own cells defines {names}, and that was judged, so "
                f"no points are lost.".strip()
            )
        try:
            exercise = self._resolved(name)
        except Exception as error:  # a variant file may hold any numbers
            self.reports[name] = refused_report(card, error)
            return
        deciding = worker.forks and self.deciding_ranks
        runner = InWorker(worker, ranks=ranks if deciding else None, most_seconds=self.limits.case_seconds)
        report = self.reports[name] = self._report_of(exercise, runner)
        ranks.close()  # the next exercise gets others: this one may have left something in them
        if runner.lost is not None and not worker.forks:
            raise runner.lost
        if deciding and needs_confirmation(exercise, report):
            report = self.reports[name] = self._weighed(worker, ranks, exercise, report, runner.packed)
            ranks.close()
        if worker.forks and needs_explanation(exercise, report):
            self.reports[name] = self._explained(worker, exercise, report)

    def _resolved(self, name: str) -> Exercise:
        return resolve(self.cards[name], self.params.get(name), self.secret)

    def _is_stub(self, name: str) -> bool:
        return any(s.do == "run" and s.exercise == name and STUB in s.source for s in self.submission.steps)

    def _weighed(
        self, worker: WorkerHandle, ranks: RankProcesses, exercise: Exercise, report: Report, packed: object
    ) -> Report:
        """The report, confirmed by the operating system's memory figure. A failure here affects no other share.

        A packed answer runs with one process per rank; any other runs on a clone of its own.
        """
        seconds = self.limits.case_seconds
        with InWorker(worker, ranks=ranks, most_seconds=seconds, clone=packed is None) as runner:
            runner.packed = packed
            return cleaned(confirm_memory(exercise, runner, report, self._words(exercise.card.id)))

    def _explained(self, worker: WorkerHandle, exercise: Exercise, report: Report) -> Report:
        """The report, with a note if the answer is right for other numbers. Its points do not change.

        The answer runs once more, on a clone of its own.
        """
        others = self.others.get(exercise.card.id, {})
        try:
            with InWorker(worker, most_seconds=min(self.limits.case_seconds, EXPLAIN_SECONDS)) as runner:
                return cleaned(explain(exercise, runner, report, others=others))
        except Exception:  # what an answer does on numbers that are not its own is nobody's business
            return report

    # --- what was lost

    def _say_lost(self, step: Step, lost: Lost) -> None:
        """Keep why a step was lost: as the exercise's report, or as a note about a cell."""
        words = lost.words[:1].lower() + lost.words[1:]
        if step.do == "judge":
            if step.exercise not in self.reports:
                self.reports[step.exercise] = lost_report(self.cards[step.exercise], lost.state, lost.words)
        elif step.whose == "answer":
            report = lost_report(self.cards[step.exercise], lost.state, f"While the answer cell ran: {words}")
            self.reports.setdefault(step.exercise, report)
            mine = {at for at, s in enumerate(self.submission.steps) if s.do == "run" and s.exercise == step.exercise}
            if mine <= self.left_out:
                self._close(step.exercise)
        else:
            whose = {"own": "One of your own cells", "course": "A cell of the chapter"}[step.whose]
            text = f"{whose}{f' ({step.where})' if step.where else ''} was left out: {words}"
            self.notes.append(text)
            self.signs.append(Sign("cell left out", "", text))

    def _out_of_time(self) -> None:
        words = (
            f"The notebook as a whole ran longer than {self.limits.notebook_seconds:g} s, so this exercise was "
            f"not reached."
        )
        for name in self.submission.exercises:
            self.reports.setdefault(name, lost_report(self.cards[name], "timed out", words))


def _is_better(now: Report, earlier: Report) -> bool:
    """Whether a later judging of an exercise counts instead of an earlier one."""
    return now.points > earlier.points or (now.points == earlier.points and earlier.state == "not answered")


def _with_conflict(step: Step, outcome: Outcome) -> Outcome:
    """The outcome of a cell, in words where an unfinished merge stands in it."""
    for number, line in enumerate(step.source.splitlines(), 1):
        if line.startswith(("<<<<<<<", ">>>>>>>")):
            return replace(
                outcome,
                error=f"Line {number} of the answer cell is the mark of an unfinished git merge: keep one "
                "side and delete the marks.",
            )
    return outcome
