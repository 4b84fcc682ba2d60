"""How chapter 17 calls answers: two plans, the table of an exam, and a training step that is called twice."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from course_grader.exercises.probes import unless_open

if TYPE_CHECKING:
    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm

CHANGED = "an argument was changed"


def planned(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """What both functions return, each a pair (plan, defense)."""
    functions = answers if isinstance(answers, tuple) else (answers,)
    return [unless_open(index, function) for index, function in enumerate(functions)]


def step_twice(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The gradient of a rank's step, after a step with other weights; CHANGED where a call wrote to an argument."""
    w, *rest = case.args
    got = None
    for weights in (w + 1, w):
        given = copy.deepcopy((weights, *rest))
        got = answer(comm, *given)
        if not _same(given, (weights, *rest)):
            return CHANGED
    return got  # not a copy: a later call must leave it as it is


def _same(one: Any, two: Any) -> bool:
    """Whether nested arguments are as they were: tensors element by element, without a gradient of their own."""
    import torch

    if isinstance(one, torch.Tensor):
        kind = one.dtype == two.dtype and one.requires_grad == two.requires_grad
        return kind and one.grad is None and torch.equal(one, two)
    if type(one) in (tuple, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)
