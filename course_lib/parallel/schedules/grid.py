"""The rows of a schedule as text."""

from collections.abc import Iterable, Sequence
from typing import Protocol


class Rows(Protocol):
    """Anything with a row of operations for each rank, such as a schedule."""

    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


def grid(schedule: Rows, mark: Iterable[tuple[int, int]] = (), width: int = 100) -> str:
    """The rows as text, a line per rank in order; ▸ and ◂ enclose marked (rank, position)s.

    Of long rows, the columns around the first mark are shown. Columns are positions in a row, not times.
    """
    marked = set(mark)
    cells = [[str(op) for op in row] for row in schedule.rows]
    for rank, place in marked:
        row = cells[rank]
        row.extend([""] * (place + 1 - len(row)))
        row[place] = f"▸{row[place] or '?'}◂"
    wide = max((len(cell) for row in cells for cell in row), default=1)
    count = max(1, (width - 10) // (wide + 1))
    first = max(0, min((place for _, place in marked), default=0) - count // 2)
    longest = max(map(len, cells), default=0)
    first = max(0, min(first, longest - count))
    lines = []
    for rank, row in enumerate(cells):
        shown = " ".join(cell.ljust(wide) for cell in row[first : first + count])
        lines.append(
            f"rank {rank:<3} {'… ' if first else ''}{shown}".rstrip() + (" …" if len(row) > first + count else "")
        )
    return "\n".join(lines)
