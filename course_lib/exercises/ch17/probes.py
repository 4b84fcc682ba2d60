"""How chapter 17 calls answers: two plans, the table of an exam, and a training step on ranks that is called twice."""

from __future__ import annotations

import copy
from typing import Any

from course_lib.exercises.probes import unless_open

CHANGED, UNEQUAL = "an argument was changed", "the second call gave something else"


def planned(answers: Any, case: Any, comm: Any = None) -> Any:
    """What both functions return, each a pair (plan, defense)."""
    functions = answers if isinstance(answers, tuple) else (answers,)
    return [unless_open(index, function) for index, function in enumerate(functions)]


def step_twice(answer: Any, case: Any, comm: Any = None) -> Any:
    """The gradient of a step that is run twice on a rank; CHANGED where it wrote to an argument, UNEQUAL where the calls differ."""
    import torch

    found = []
    for _ in range(2):
        given = copy.deepcopy(case.args)
        found.append(answer(comm, *given))
        if not _same(given, case.args):
            return CHANGED
    if not all(isinstance(each, torch.Tensor) for each in found):
        return found[0]
    one, two = (each.detach() for each in found)
    if one.shape != two.shape or not torch.equal(one, two):
        return UNEQUAL
    return one.clone()


def _same(one: Any, two: Any) -> bool:
    """Whether nested arguments are as they were: tensors element by element, without a gradient of their own."""
    import torch

    if isinstance(one, torch.Tensor):
        return (
            one.grad is None
            and one.requires_grad == two.requires_grad
            and one.dtype == two.dtype
            and torch.equal(one, two)
        )
    if type(one) in (tuple, list):
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two)
