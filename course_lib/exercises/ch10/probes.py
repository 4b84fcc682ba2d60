"""How chapter 10 calls answers: for rows of operations, and with real stages whose work takes virtual time."""

from __future__ import annotations

from typing import Any

from course_lib.exercises.point_to_point import PointToPoint

__all__ = ["any_schedule", "numbers", "one_f_one_b", "one_of_three", "rows", "rows_or_refusal"]

MOST = 20_000  # operations that may come back; exercises ask for a few hundred


def _rows(given: Any) -> Any:
    """The rows themselves; those of a schedule, and only a count where there are far too many operations."""
    given = getattr(given, "rows", given)
    if isinstance(given, list | tuple):
        count = len(given) + sum(len(row) if isinstance(row, list | tuple | str) else 1 for row in given)
        if count > MOST:
            return {"operations": count}
    return given


def rows(answer: Any, case: Any, comm: Any = None) -> Any:
    """The rows that the answer makes of the case's sizes."""
    return _rows(answer(*case.args))


def one_of_three(answers: Any, case: Any, comm: Any = None) -> Any:
    """The rows of one of several functions; its place comes first among the arguments."""
    which, *sizes = case.args
    return _rows(answers[which](*sizes))


def rows_or_refusal(answer: Any, case: Any, comm: Any = None) -> Any:
    """The rows, or what a ValueError said."""
    try:
        return rows(answer, case)
    except ValueError as error:
        return {"refused": str(error)[:200]}


def numbers(answers: Any, case: Any, comm: Any = None) -> Any:
    """What each of several functions says; `case.args` holds the arguments of each."""
    return [answer(*given) for answer, given in zip(answers, case.args, strict=True)]


def one_f_one_b(answer: Any, case: Any, comm: Any = None) -> Any:
    """The gradients that a rank's one stage is left with; `case.args = (description, this rank's stages)`."""
    from course_lib.exercises.ch10.work import Work

    spec, mine = case.args
    work, stage = Work(comm, spec, mine), comm.rank
    answer(
        PointToPoint(comm),
        lambda m, x=None: work.forward(stage, m, x),
        lambda m, grad=None: work.backward(stage, m, grad),
        work.empty,
        spec["microbatches"],
    )
    return work.told()


def any_schedule(answer: Any, case: Any, comm: Any = None) -> Any:
    """The gradients that a rank's stages are left with; `case.args = (description, this rank's stages)`."""
    from course_lib.exercises.ch10.work import Work

    spec, mine = case.args
    work = Work(comm, spec, mine)
    given = [[tuple(op) for op in row] for row in spec["rows"]]
    answer(PointToPoint(comm), given, list(spec["homes"]), work.forward, work.backward, work.empty)
    return work.told()
