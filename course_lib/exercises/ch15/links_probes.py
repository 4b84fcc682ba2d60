"""How chapter 15 calls its answers on rates: many rows in a case, and held-out ratios beside the answer's own predictions."""

from __future__ import annotations

import copy
import statistics
from typing import Any

from course_lib.exercises.probes import NOT_ANSWERED, rows

__all__ = ["sweeps"]


def sweeps(answers: Any, case: Any, comm: Any = None) -> Any:
    """Seconds for each row `(sweep, bytes)` where `case.args[0]` is 0; for each sweep what the second function says, and what it should.

    Beside the ratios that `held_out` gives stand the seconds that `predict_seconds` gives for each size: from all other rows, and from
    all rows, that size's own among them.
    """
    index, table = case.args
    predict, held_out = answers
    if index == 0:
        return rows(answers, case)
    try:
        return [_beside(predict, held_out, sweep) for (sweep,) in table]
    except NotImplementedError:
        return NOT_ANSWERED


def _beside(predict: Any, held_out: Any, sweep: list[dict[str, Any]]) -> dict[str, Any]:
    said = held_out(copy.deepcopy(sweep))
    others, everything = {}, {}
    for place, row in enumerate(sweep):
        measured = statistics.median(row["seconds"])
        rest = [other for other in sweep if other is not sweep[place]]
        others[row["nbytes"]] = predict(copy.deepcopy(rest), row["nbytes"]) / measured
        everything[row["nbytes"]] = predict(copy.deepcopy(sweep), row["nbytes"]) / measured
    return {"said": said, "others": others, "everything": everything}
