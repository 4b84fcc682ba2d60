"""What the judges of kernels with tiles compare: results, bytes that crossed, and bytes that were held."""

from collections.abc import Mapping, Sequence

from course_grader.judging import Fault, Params, Worked, judged
from course_grader.judging.mistakes import Wrong
from course_grader.judging.tensors import tensor_fault
from course_grader.records import Case, Outcome, Verdict

MEMORY = (24, 8, 4)  # rows, columns and width of the case in which the fast memory is looked at


def verdicts(
    right: Worked, names: Sequence[str], of_queries: int, of_keys: int, params: Params, case: Case, outcome: Outcome
) -> list[Verdict]:
    """Verdicts on results of these names and on the bytes that crossed or, where the fast memory is looked at, on those
    that were held: so many tiles of queries and of keys, and four of scores."""
    got, fault = outcome.value, _results_fault(right, case, outcome.value, names)
    if case.part == "held":
        return judged(case, fault or _held_fault(got, of_queries, of_keys), named=True)
    return judged(case, fault, ("cost", "traffic", _traffic_fault(right, case, got)), named=True)


def _results_fault(right: Worked, case: Case, got: Mapping[str, object], names: Sequence[str]) -> Fault | None:
    """The first result that differs from the worked answer's."""
    want = right.value(case)
    for name in names:
        if fault := tensor_fault(f'"{name}"', got[name], want[name]):
            return fault._replace(where=(name,)) if isinstance(fault, Wrong) else fault
    return None


def _traffic_fault(right: Worked, case: Case, got: Mapping[str, object]) -> Fault | None:
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


def _held_fault(got: Mapping[str, float], of_queries: int, of_keys: int) -> Fault | None:
    """More numbers in fast memory than so many tiles of queries, so many of keys and four of scores."""
    rows, columns, width = MEMORY
    most = 4 * (of_queries * rows * width + of_keys * columns * width + 4 * rows * columns)
    if 0 < got["peak"] <= most:
        return None
    return "too-much-held", (
        f"the fast memory held {got['peak']:,} bytes at one time; {most:,} are enough for {of_queries} tiles of "
        f"queries, {of_keys} of keys and four of scores. What is kept longer, or larger, than a tile?"
    )
