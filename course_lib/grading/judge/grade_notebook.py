"""One notebook, marked: its cells run in a worker, its exercises judged from outside, and what breaks costs only itself.

Where workers are forked, a notebook is gone through twice at most. At first nothing is protected from what is judged before it:
every exercise is judged in the notebook's own process, as in a learner's kernel, and only what passes there is kept. What does not
pass may be another's fault, so it is judged in a notebook in which nothing was judged, on a clone that nobody else sees; this one
has the last word. To fork and end a clone costs as much as a few exercises do.

A cell or an exercise that ends the worker is left out there and the notebook starts over without it; exercises that were judged
before keep their reports. Starting over is bounded: each time something is left out.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from course_lib.exercises import Card
from course_lib.grading.clean_text import clean
from course_lib.grading.judge.confirmed_memory import confirmed, wants_weighing
from course_lib.grading.judge.decide import EXPLAIN_SECONDS, decide, explain, wants_explaining
from course_lib.grading.sandbox.wall import Wall
from course_lib.grading.submission import STUB, Step, Submission
from course_lib.grading.worker.in_worker import InWorker, Lost, names_there, run_cell
from course_lib.grading.worker.rank_processes import RankProcesses
from course_lib.grading.worker.worker_pool import WorkerHandle, WorkerPool
from course_lib.records import Outcome, Report

NOTEBOOK_SECONDS = Wall(
    level="none"
).notebook_seconds  # for all cells and cases of one notebook together, without a wall that says otherwise
QUICK_SECONDS, QUICK_CELL_SECONDS = (
    2.0,
    10.0,
)  # for a case, or a cell, of the first time; the second time it has as long as it may
QUICK_TIMES = 3  # that the first time begins anew
QUICK_SHARE = 0.25  # of a notebook's time, which the first time may take on top of it
_BESIDE_BYTES = 20_000_000  # what may lie beside a notebook and be there for its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A notebook's reports in the order of the chapter, and what a reader should know."""

    reports: tuple[Report, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """By what a notebook is judged."""

    params: Mapping[str, Mapping[str, Any]]  # exercise -> this student's numbers
    others: Mapping[str, Mapping[str, Mapping[str, Any]]]  # exercise -> who -> theirs
    secret: str
    deciding: bool
    quick: bool = False


@dataclass
class _State:
    """What is known after some runs of the notebook."""

    reports: dict[str, Report] = field(default_factory=dict)
    left_out: set[int] = field(default_factory=set)  # steps that are not taken again
    errors: dict[str, Outcome] = field(default_factory=dict)  # exercise -> how its answer cell went
    notes: list[str] = field(default_factory=list)
    limits: Wall = Wall(level="none")  # noqa: RUF009 - frozen


def mark(
    submission: Submission,
    cards: Sequence[Card],
    workers: WorkerPool,
    *,
    beside: Path | None = None,
    params: Mapping[str, Mapping[str, Any]] | None = None,
    secret: str = "public",
    deciding_ranks: bool = False,
    others: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    limits: Wall | None = None,
) -> Marked:
    """Every exercise of a submission, judged. `beside` is the notebook's folder, of which the worker gets a copy.

    With `deciding_ranks` cluster exercises are decided by runs with a process for each rank, as in a class. `others` are the
    numbers of other students (exercise -> who -> parameters): an answer that is right for theirs is told so. `limits` say how long
    cells, cases and the whole may take; if not given, those of the workers' wall do.
    """
    known = {card.id: card for card in cards}
    state = _State()
    for exercise, why in submission.missing.items():
        state.errors[exercise] = Outcome(state="not answered", error=why)
    state.limits = limits or workers.wall or Wall(level="none")
    workers.wait_ready()  # which is not the submission's time
    rules = _Rules(params=params or {}, others=others or {}, secret=secret, deciding=deciding_ranks)
    if workers.forks:
        until = time.monotonic() + QUICK_SHARE * state.limits.notebook_seconds
        _quickly(submission, known, workers, beside, state, until, replace(rules, quick=True))
    until = time.monotonic() + state.limits.notebook_seconds
    with _copy_of(beside) as folder:
        while not _through(submission, known, workers, folder, state, until, rules):
            pass
    return Marked(reports=tuple(state.reports[name] for name in submission.exercises), notes=tuple(state.notes))


def _quickly(
    submission: Submission,
    known: Mapping[str, Card],
    workers: WorkerPool,
    beside: Path | None,
    state: _State,
    until: float,
    rules: _Rules,
) -> None:
    """Run the notebook without clones, and keep the reports of what is right there, or plainly not answered.

    An exercise that ends the process is left to the second time, and the others are gone through without it.
    """
    skipped, stubs = (
        set(submission.missing),
        {step.exercise for step in submission.steps if step.do == "run" and STUB in step.source},
    )
    for _ in range(QUICK_TIMES):
        with _copy_of(beside) as folder, workers.worker(folder) as worker, closing(RankProcesses(worker)) as ranks:
            for step in submission.steps:
                if time.monotonic() > until:
                    return
                try:
                    if step.do == "run":
                        run_cell(worker, step.source, min(QUICK_CELL_SECONDS, state.limits.cell_seconds))
                    elif step.exercise not in skipped and step.exercise not in state.reports:
                        _judge_quickly(worker, ranks, known[step.exercise], step.exercise in stubs, state, rules)
                except Lost:
                    skipped.add(step.exercise)
                    break
            else:
                return
        if step.do == "run":
            return


def _judge_quickly(
    worker: WorkerHandle, ranks: RankProcesses, card: Card, stub: bool, state: _State, rules: _Rules
) -> None:
    """Judge one exercise in the notebook's own process; Lost if that is of no more use."""
    if not all(names_there(worker, card.answers)[0]):
        return
    report, place = _in_a_place(worker, ranks if rules.deciding else None, card, state, rules)
    if place.lost is not None:
        raise place.lost
    if report.passed and rules.deciding and wants_weighing(card, report):
        report = _weighed(worker, ranks, card, report, state, rules, place.packed)
        if not report.passed:
            ranks.close()  # one of them may still be at it
    if report.passed or (stub and report.state == "not answered"):
        state.reports[card.id] = report


def _through(
    submission: Submission,
    known: Mapping[str, Card],
    workers: WorkerPool,
    folder: Path,
    state: _State,
    until: float,
    rules: _Rules,
) -> bool:
    """Run the notebook once; whether it came to its end. If not, what broke it is left out of the next run."""
    if all(name in state.reports for name in submission.exercises):
        return True
    with workers.worker(folder) as worker, closing(RankProcesses(worker)) as ranks:
        for index, step in enumerate(submission.steps):
            if index in state.left_out or (step.do == "judge" and step.exercise in state.reports):
                continue
            if time.monotonic() > until:
                _out_of_time(submission, known, state)
                return True
            try:
                if step.do == "run":
                    _run(worker, step, state, until)
                else:
                    _judge(worker, ranks, known[step.exercise], step.exercise in submission.missing, state, rules)
            except Lost as lost:
                state.left_out.add(index)
                _say_lost(step, lost, known, state)
                return False
    return True


def _run(worker: WorkerHandle, step: Step, state: _State, until: float) -> None:
    """Run one cell; an error in an answer cell is kept for its exercise."""
    outcome = run_cell(worker, step.source, min(state.limits.cell_seconds, max(until - time.monotonic(), 1.0)))
    if step.whose == "answer" and outcome.state != "answered":
        state.errors[step.exercise] = _with_conflict(step, outcome)


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


def _judge(worker: WorkerHandle, ranks: RankProcesses, card: Card, missing: bool, state: _State, rules: _Rules) -> None:
    """Judge one exercise on what the notebook has defined so far."""
    there, own = names_there(worker, card.answers)
    wrote = state.errors.get(card.id)
    if not all(there) or (missing and not all(own)):
        absent = next((name for name, has in zip(card.answers, there, strict=True) if not has), card.answers[0])
        reason = wrote or Outcome(
            state="raised", error=f"The answer cell does not define `{absent}`: keep the names that it came with."
        )
        state.reports[card.id] = lost_report(card, reason.state, reason.error)
        return
    if missing:
        names = ", ".join(f"`{name}`" for name in card.answers)
        state.notes.append(
            f"{wrote.error if wrote else ''} But a cell of your own defines {names}, and that was judged: nothing is lost.".strip()
        )
    deciding = worker.forks and rules.deciding
    report, place = _in_a_place(worker, ranks if deciding else None, card, state, rules)
    ranks.close()  # the next exercise gets others: this one may have left something in them
    state.reports[card.id] = report
    if place.lost is not None and not worker.forks:
        raise place.lost
    if deciding and wants_weighing(card, report):
        report = state.reports[card.id] = _weighed(worker, ranks, card, report, state, rules, place.packed)
        ranks.close()
    if worker.forks and wants_explaining(card, report, rules.params.get(card.id)):
        state.reports[card.id] = _explained(worker, card, report, state, rules)


def _in_a_place(
    worker: WorkerHandle, ranks: RankProcesses | None, card: Card, state: _State, rules: _Rules
) -> tuple[Report, InWorker]:
    """The report of an exercise, and where it was judged: on a clone, unless it is to be quick."""
    seconds = min(QUICK_SECONDS, state.limits.case_seconds) if rules.quick else state.limits.case_seconds
    with InWorker(worker, ranks=ranks, most_seconds=seconds, clone=not rules.quick) as place:
        report = _graded(card, place, rules)
        place.settle()
    if place.lost is not None:
        report = replace(report, state=place.lost.state, points=0.0, note=place.lost.words)
    return report, place


def _weighed(
    worker: WorkerHandle, ranks: RankProcesses, card: Card, report: Report, state: _State, rules: _Rules, packed: Any
) -> Report:
    """The report with what the operating system says of the answer's memory: what happens there costs no other share.

    An answer that was packed runs with a process for each rank; any other on a clone of its own.
    """
    with InWorker(worker, ranks=ranks, most_seconds=state.limits.case_seconds, clone=packed is None) as again:
        again.packed = packed
        return cleaned(confirmed(card, again, report, params=rules.params.get(card.id), secret=rules.secret))


def _explained(worker: WorkerHandle, card: Card, report: Report, state: _State, rules: _Rules) -> Report:
    """The report with a word for an answer that is right for other numbers than its own; its points stay, whatever happens.

    The answer runs once more, on a clone of its own.
    """
    try:
        with InWorker(worker, most_seconds=min(state.limits.case_seconds, EXPLAIN_SECONDS)) as again:
            told = explain(
                card,
                again,
                report,
                params=rules.params.get(card.id),
                secret=rules.secret,
                others=rules.others.get(card.id, {}),
            )
            return cleaned(told)
    except Exception:  # what an answer does on numbers that are not its own is nobody's business
        return report


def _graded(card: Card, place: InWorker, rules: _Rules) -> Report:
    """The judge's report; if the judge itself fails on what it was given, that is said and costs the exercise."""
    try:
        return cleaned(decide(card, place, params=rules.params.get(card.id), secret=rules.secret))
    except Exception as error:  # what an answer returns must never end the marking of the others
        return lost_report(
            card,
            "refused",
            f"The judge could not read what this answer returned ({type(error).__name__}); "
            "please report it if your answer returns what was asked for.",
        )


def cleaned(report: Report) -> Report:
    """The report with every text that may hold a learner's words made safe to show."""
    verdicts = tuple(replace(verdict, message=clean(verdict.message)) for verdict in report.verdicts)
    return replace(report, verdicts=verdicts, note=clean(report.note))


def lost_report(card: Card, state: Any, note: str) -> Report:
    """No points, and why."""
    return Report(exercise=card.id, state=state, points=0.0, maximum=float(card.points), note=note)


def _say_lost(step: Step, lost: Lost, known: Mapping[str, Card], state: _State) -> None:
    """Keep why a step was lost: as the exercise's report, or as a note about a cell."""
    words = lost.words[:1].lower() + lost.words[1:]
    if step.do == "judge":
        if step.exercise not in state.reports:
            state.reports[step.exercise] = lost_report(known[step.exercise], lost.state, lost.words)
    elif step.whose == "answer":
        state.reports[step.exercise] = lost_report(
            known[step.exercise], lost.state, f"While the answer cell ran: {words}"
        )
    else:
        whose = {"own": "One of your own cells", "course": "A cell of the chapter"}[step.whose]
        state.notes.append(f"{whose}{f' ({step.where})' if step.where else ''} was left out: {words}")


def _out_of_time(submission: Submission, known: Mapping[str, Card], state: _State) -> None:
    words = f"The notebook as a whole ran longer than {state.limits.notebook_seconds:g} s, so this exercise was not reached."
    for name in submission.exercises:
        state.reports.setdefault(name, lost_report(known[name], "timed out", words))


@contextmanager
def _copy_of(beside: Path | None) -> Iterator[Path]:
    """A scratch folder with copies of the small files that lie beside a notebook: what cells write goes nowhere else."""
    with tempfile.TemporaryDirectory(prefix="course-worker-", ignore_cleanup_errors=True) as scratch:
        target, room = Path(scratch).resolve() / "notebook", _BESIDE_BYTES
        target.mkdir()
        for path in sorted(beside.rglob("*")) if beside is not None else ():
            inside = path.relative_to(beside) if beside is not None else path
            if (
                path.is_symlink()
                or not path.is_file()
                or path.suffix == ".ipynb"
                or any(part.startswith(".") for part in inside.parts)
            ):
                continue
            room -= path.stat().st_size
            if room < 0:
                break
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / inside)
        yield target
