"""How chapter 15 calls its answers: held-out ratios beside own predictions, visits that take time, a training that runs
again."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, TypedDict

from course_grader.exercises.probes import rows, unless_open
from course_grader.exercises.values import copied

if TYPE_CHECKING:
    from torch import Tensor

    from course_grader.records import Answer, Case
    from course_lib.cluster import Comm


class Timed(TypedDict):
    """A row of a sweep: the repeats of one size, in the order in which they ran."""

    nbytes: int
    seconds: list[float]


class Visited(TypedDict):
    """What a rank of a ring has in the end: the sum over all visits, the owners visited, and the caller's own block."""

    total: Tensor
    owners: list[int]
    block: Tensor


VISIT = 40e-6  # s of virtual time that a visit takes: a few latencies
RUNS = 4  # runs of a training that an answer may ask for


def passed_round(answer: Answer, case: Case, comm: Comm) -> Visited:
    """What the rank has after its answer; `case.args = (block,)`."""
    from torch import Tensor

    from course_grader.exercises.point_to_point import PointToPoint

    owners: list[int] = []

    def visit(block: object, owner: object) -> object:
        if not isinstance(block, Tensor) or type(owner) is not int:
            raise ValueError(f"visit(block, owner) takes tensor and rank; got {type(block).__name__} and {owner!r}.")
        comm.compute(VISIT, label="visit")
        owners.append(owner)
        return block.double() * (owner + 2)

    block = case.args[0]
    total = answer(PointToPoint(comm), block, visit)
    return {"total": total, "owners": owners, "block": block.clone()}


def run_again(answer: Answer, case: Case, comm: Comm | None = None) -> object:
    """The answer's word for a training, and how often it ran it; `case.args = (results of each run, floor)`."""
    runs, floor = case.args
    asked: list[int] = []

    def run() -> object:
        if len(asked) == RUNS:
            raise ValueError(f"Each run costs time; this would be run {RUNS + 1} of one program.")
        asked.append(len(asked))
        return json.loads(json.dumps(runs[asked[-1] % len(runs)]))  # each NaN is an object of its own, equal to nothing

    return {"word": answer(run, floor), "runs": len(asked)}


def sweeps(answers: tuple[Answer, ...], case: Case, comm: Comm | None = None) -> object:
    """Seconds for each row `(sweep, bytes)` if `case.args[0]` is 0; otherwise, for each sweep, three dictionaries of
    ratios by size.

    `said` is what `held_out` returns; `others` and `everything` are predictions of `predict_seconds` over measured
    seconds: without that size's row, and with it.
    """
    index, table = case.args
    if index == 0:
        return rows(answers, case)
    return unless_open(index, lambda: [_beside(sweep, *answers) for (sweep,) in table])


def _beside(sweep: list[Timed], predict: Answer, held_out: Answer) -> dict[str, object]:
    def ratio(row: Timed, rows: list[Timed]) -> float:
        return predict(copied(rows), row["nbytes"]) / statistics.median(row["seconds"])

    return {
        "said": held_out(copied(sweep)),
        "others": {row["nbytes"]: ratio(row, [other for other in sweep if other is not row]) for row in sweep},
        "everything": {row["nbytes"]: ratio(row, sweep) for row in sweep},
    }
