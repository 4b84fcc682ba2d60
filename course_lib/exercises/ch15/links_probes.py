"""How chapter 15 calls its answers on rates: many rows in a case, and held-out ratios next to the answer's own predictions."""

from __future__ import annotations

import copy
import statistics
from typing import Any

from course_lib.exercises.probes import NOT_ANSWERED, rows

__all__ = ["sweeps"]


def sweeps(answers: Any, case: Any, comm: Any = None) -> Any:
    """Seconds for each row `(sweep, bytes)` if `case.args[0]` is 0; otherwise, for each sweep, three dictionaries of ratios by size.

    `said` is what `held_out` returns; `others` and `everything` are predictions of `predict_seconds` over measured seconds: without
    that size's row, and with it.
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
