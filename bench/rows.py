"""A row of a benchmark's table: a figure, and whether it holds what it is held to."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, and whether it holds what it is held to; None where nothing is asked."""

    what: str
    value: float
    unit: str
    ok: bool | None = None
    note: str = ""


def show(rows: Sequence[Row], as_json: bool) -> int:
    """Print the rows as a table or as JSON; 1 where one misses what it is held to, else 0."""
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            figure = f"{row.value:,.0f}" if row.unit == "bytes" else f"{row.value:.4g}"
            held = {None: "", True: "holds", False: "MISSED"}[row.ok]
            print(f"{row.what:{width}}  {figure:>14} {row.unit:8} {held:6} {row.note}".rstrip())
    return int(any(row.ok is False for row in rows))
