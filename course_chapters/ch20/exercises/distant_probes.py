"""How chapter 20 calls answers that train far apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_grader.exercises.probes import unless_open
from course_grader.records import Answer, Case

if TYPE_CHECKING:
    from course_lib.cluster import Comm


def outer_rounds(answer: Answer, case: Case, comm: Comm) -> object:
    """What a worker holds after each of several outer steps: shared weights, then velocity, tensor by tensor.

    `case.args = (shared, velocity, moves)`: the first shared weights and velocity, and by how much this worker goes
    away from the shared weights in each round. "touched": an argument changed.
    """
    import torch

    shared, velocity, moves = case.args
    rounds, touched = [], False
    for move in moves:
        own = [each + away for each, away in zip(shared, move, strict=True)]
        before = [each.clone() for each in (*own, *shared, *velocity)]
        given = [*own, *shared, *velocity]
        new, speed = answer(comm, own, shared, velocity)
        touched |= not all(torch.equal(one, two) for one, two in zip(given, before, strict=True))
        rounds.append([each.clone() for each in (*new, *speed)])
        shared, velocity = list(new), list(speed)
    return {"x": rounds, "touched": touched}


def streamed(answers: Sequence[Answer], case: Case, comm: object = None) -> object:
    """Gradients where `case.args[0]` is 0, else shared weights after a merge; and whether other tensors were changed.

    `case.args = (index, one, local, alpha)`: the weights at the last exchange, or the new shared ones.
    """
    import torch

    index, one, local, alpha = case.args
    mine = [each.clone() for each in one]  # of the model, which a merge changes
    own = [each.clone() for each in local]

    def run() -> dict[str, object]:
        found = answers[0](list(mine), list(own)) if index == 0 else mine
        if index:
            answers[1](list(mine), list(own), alpha)
        pairs = [*zip(own, local, strict=True), *(zip(mine, one, strict=True) if index == 0 else ())]
        return {"x": list(found), "touched": not all(torch.equal(*pair) for pair in pairs)}

    return unless_open(index, run)
