"""Real runs in a chapter: one's own evidence where there is any, else what was recorded with the course, and which of
them it is.

Every function gives Markdown for the end of a cell. Without either it says so, and points to the published rows that
the chapter shows anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.estimate.units import bytes_text, duration_text, number_text, percent_text, rate_text
from course_runs import reading
from course_runs.reading import Chosen

if TYPE_CHECKING:
    from IPython.display import Markdown

QUANTITIES: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "seconds": ("a step", duration_text),
    "memory": ("held at the peak", bytes_text),
    "wire": ("sent a step", bytes_text),
}
_CALLED = {"own": "Your own evidence", "recorded": "Recorded with the course"}
_NONE = (
    "Neither evidence of your own nor recorded evidence of this kind is here: what others published is in "
    "the next cell."
)


def together(kind: str, *asked: Mapping[str, object]) -> tuple[Chosen, ...]:
    """One evidence for each setup, all of one origin, model and number of processes; one's own first, empty if there is
    none."""
    for origin in reading.ORIGINS:
        try:
            first = reading.choose(kind, origin=origin, **asked[0])
            alike = (
                {"size": first.content["setup"]["size"], "ranks": reading.ranks_of(first.content)}
                if len(asked) > 1
                else {}
            )
            return (first, *(reading.choose(kind, origin=origin, **alike, **each) for each in asked[1:]))
        except ValueError:
            continue  # this origin lacks one of them
    return ()


def steps(runs: Mapping[str, Mapping[str, object]], quantities: Sequence[str] = tuple(QUANTITIES)) -> Markdown:
    """Predicted, measured and ratio of training runs, a row for each quantity and run: `runs` has their names and
    setups."""
    found = together("train", *runs.values())
    rows = []
    for name, row in zip(runs, reading.rows_of(found), strict=False):
        for quantity in quantities:
            words, text = QUANTITIES[quantity]
            said, seen, ratio = (row[f"{quantity}_{part}"] for part in ("predicted", "measured", "ratio"))
            rows.append(
                {
                    "run": name,
                    "": words,
                    "predicted": text(said),
                    "measured": text(seen),
                    "ratio": f"{ratio:.2f}" if ratio else "–",
                }
            )
    return shown(found, rows)


def matmul() -> Markdown:
    """The best rate of each size of matrix, against the data sheet's peak or, without one, the best of all."""
    found = together("matmul", {})
    rows = []
    for row in found[0].content["raw"]["rows"] if found else ():
        measured, dtype = found[0].content["measured"], row["dtype"]
        peak = measured[f"peak_flops_{dtype}"]
        roof, name = (peak, "the sheet's peak") if peak else (measured[f"best_flops_{dtype}"], "the best found here")
        shape = " × ".join(f"{side:,}" for side in row["shape"])
        rows.append(
            {
                "matmul": f"{shape}, {dtype}",
                "achieved": rate_text(row["flops"]),
                "share of": name,
                "": percent_text(row["flops"] / roof),
            }
        )
    return shown(found, rows)


def links() -> Markdown:
    """α and β of every collective that was swept: latency, bus bandwidth by the fit, and the best that was seen."""
    found = together("collectives", {})
    rows = []
    for kind, best in found[0].content["measured"]["best_bus"].items() if found else ():
        line = found[0].content["measured"]["fits"].get(kind)
        fitted = (
            {"α": duration_text(line["alpha"]), "bus bandwidth, fitted": _a_second(line["bus"])}
            if line
            else {"α": "no line fits", "bus bandwidth, fitted": "–"}
        )
        rows.append({"collective": kind.replace("_", "-"), **fitted, "bus bandwidth, best": _a_second(best)})
    return shown(found, rows)


def _a_second(nbytes: float) -> str:
    return f"{bytes_text(nbytes)}/s"


def shown(found: Sequence[Chosen], rows: Sequence[Mapping[str, str]]) -> Markdown:
    """The rows as a table under a line that says whose evidence it is and where it ran."""
    from IPython.display import Markdown

    if not found:
        return Markdown(_NONE)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    return Markdown("\n".join([f"{origin_of(found)}\n", *(f"| {' | '.join(line)} |" for line in lines)]))


def origin_of(found: Sequence[Chosen]) -> str:
    """Whose evidence these files are, on what they ran, their names and their day."""
    first = found[0]
    ranks, machine = reading.ranks_of(first.content), reading.hardware(first.content["environment"])
    names = ", ".join(f"`{each.name}`" for each in found)
    processes = f"{number_text(ranks)} process{'es' * (ranks > 1)}"
    day = max(each.content["when"] for each in found)[:10]
    return f"**{_CALLED[first.origin]}**: {names}, {processes} on {machine}, {day}."
