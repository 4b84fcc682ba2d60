"""How chapter 10 calls its answers: for rows of operations, and with real stages whose work takes virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from course_grader.exercises.point_to_point import PointToPoint
from course_grader.exercises.probes import or_refusal, unless_open

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

MOST = 20_000  # operations that may come back; exercises ask for a few hundred


def _rows(answer: Callable[..., object], sizes: tuple[object, ...]) -> object:
    """The rows for these sizes; only a count where there are far too many operations."""
    given = answer(*sizes)
    given = getattr(given, "rows", given)  # a schedule of the library
    if isinstance(given, list | tuple):
        count = len(given) + sum(len(row) if isinstance(row, list | tuple | str) else 1 for row in given)
        return {"operations": count} if count > MOST else given
    return given


def rows(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The rows that the answer makes of the case's sizes."""
    return _rows(answer, case.args)


def one_of_three(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """The rows of one of several functions; its index comes first among the arguments."""
    which, *sizes = case.args
    return unless_open(which, lambda: _rows(answers[which], tuple(sizes)))


def rows_or_refusal(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The rows, or the message of a ValueError."""
    return or_refusal(_rows, answer, case.args)


def one_f_one_b(answer: Answer, case: Case, comm: Comm) -> object:
    """What a rank's one stage reports after 1F1B; `case.args = (description, this rank's stages)`."""
    from course_chapters.ch10.exercises.work import Work

    spec, own = case.args
    work, stage = Work(comm, spec, own), comm.rank
    answer(
        PointToPoint(comm),
        lambda m, x=None: work.forward(stage, m, x),
        lambda m, grad=None: work.backward(stage, m, grad),
        work.empty,
        spec["microbatches"],
    )
    return work.report()


def any_schedule(answer: Answer, case: Case, comm: Comm) -> object:
    """What a rank's stages report after the schedule; `case.args = (description, this rank's stages)`."""
    from course_chapters.ch10.exercises.work import Work

    spec, own = case.args
    work, homes = Work(comm, spec, own), list(spec["homes"])
    schedule, again = ([[tuple(op) for op in row] for row in spec["rows"]] for _ in range(2))
    answer(PointToPoint(comm), schedule, homes, work.forward, work.backward, work.empty)
    if schedule != again:
        spec["rows"] = schedule  # the caller, and a second call, see what the answer did to it
    return work.report()
