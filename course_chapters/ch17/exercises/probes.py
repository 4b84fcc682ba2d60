"""How chapter 17 calls answers: two plans, the table of an exam, and a training step that is called twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_grader.exercises.probes import CHANGED, unless_open, watched

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


def planned(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What both functions return, each a pair (plan, defense)."""
    functions = answers if isinstance(answers, tuple) else (answers,)
    return [unless_open(index, function) for index, function in enumerate(functions)]


@watched
def step_twice(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The gradient of a rank's step, after a step with other weights; CHANGED where the given weights collect it."""
    w, *rest = case.args
    answer(comm, w + 1, *rest)
    got = answer(comm, w, *rest)
    return CHANGED if w.requires_grad else got  # not a copy: a later call must leave it as it is
