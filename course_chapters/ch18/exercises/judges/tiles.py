"""What the judges of kernels with tiles compare: results, bytes that crossed, and bytes that were held."""

from collections.abc import Mapping, Sequence
from typing import Any

from course_grader.judging import Case, Fault, Worked, Wrong
from course_grader.judging.tensors import tensor_fault


def results_fault(right: Worked, case: Case, got: Mapping[str, Any], names: Sequence[str]) -> Fault | None:
    want = right.value(case)
    for name in names:
        if fault := tensor_fault(f'"{name}"', got[name], want[name]):
            return fault._replace(where=(name,)) if isinstance(fault, Wrong) else fault
    return None


def traffic_fault(right: Worked, case: Case, got: Mapping[str, Any]) -> Fault | None:
    """More bytes between the memories than the worked answer moves, or the same bytes in more tiles."""
    most = right.value(case)
    if got["traffic"] > most["traffic"]:
        return "too-much-traffic", (
            f"{got['traffic']:,} bytes crossed between slow and fast memory; {most['traffic']:,} are enough. Which "
            "tile is loaded or stored more often than the budget says?"
        )
    if got["tiles"] > most["tiles"]:
        return "too-many-tiles", (
            f"{got['tiles']} tiles crossed between slow and fast memory, where {most['tiles']} of the asked size carry "
            "the same numbers."
        )
    return None


def held_fault(
    got: Mapping[str, Any], rows: int, columns: int, width: int, of_rows: int, of_columns: int
) -> Fault | None:
    """More numbers in fast memory than so many tiles of queries, so many of keys and four of scores."""
    most = 4 * (of_rows * rows * width + of_columns * columns * width + 4 * rows * columns)
    if 0 < got["peak"] <= most:
        return None
    return "too-much-held", (
        f"the fast memory held {got['peak']:,} bytes at one time; {most:,} are enough for {of_rows} tiles of queries, "
        f"{of_columns} of keys and four of scores. What is kept longer, or larger, than a tile?"
    )
