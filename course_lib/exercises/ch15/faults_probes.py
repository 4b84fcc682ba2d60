"""How chapter 15 calls answers about faults: a ring whose visits take time, batches of labels, a training that can be run again."""

from __future__ import annotations

import copy
import json
from typing import Any

VISIT = 40e-6  # s of virtual time that a visit takes: a few latencies
RUNS = 4  # runs of a training that an answer may ask for


def passed_round(answer: Any, case: Any, comm: Any = None) -> Any:
    """The sum over all visits, whose blocks they were given, and the caller's own block afterwards; `case.args = (block,)`."""
    from torch import Tensor

    from course_lib.exercises.point_to_point import PointToPoint

    owners: list[Any] = []

    def visit(block: Any, owner: Any) -> Any:
        if not isinstance(block, Tensor) or type(owner) is not int:
            raise ValueError(
                f"visit(block, owner) takes a tensor and a rank's number; it was given {type(block).__name__} and {owner!r}."
            )
        comm.compute(VISIT, label="visit")
        owners.append(owner)
        return block.double() * (owner + 2)

    block = case.args[0]
    total = answer(PointToPoint(comm), block, visit)
    return {"total": total, "owners": owners, "block": block.clone()}


def batches(answers: Any, case: Any, comm: Any = None) -> Any:
    """What one of two answers returns; `case.args = (which, its arguments)`. An unanswered second one loses its part only."""
    from course_lib.exercises.probes import NOT_ANSWERED

    which, given = case.args
    try:
        got = answers[which](*copy.deepcopy(given))
    except NotImplementedError:
        if which == 0:
            raise
        return NOT_ANSWERED
    return list(got) if which == 0 and isinstance(got, tuple) else got


def run_again(answer: Any, case: Any, comm: Any = None) -> Any:
    """The word that an answer says of a training, and how often it ran it; `case.args = (what each run gives, the floor)`."""
    runs, floor = case.args
    asked: list[int] = []

    def run() -> Any:
        if len(asked) == RUNS:
            raise ValueError(f"Each run costs; this would be number {RUNS + 1} of one program.")
        asked.append(len(asked))
        return json.loads(
            json.dumps(runs[asked[-1] % len(runs)])
        )  # numbers of its own: what is no number is then equal to nothing

    return {"word": answer(run, floor), "runs": len(asked)}
