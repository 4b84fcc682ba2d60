"""The published rows that constants were chosen on. Only these are left out when a bench judges; the rest of their half
is not."""

import zlib
from functools import cache

from course_lib.estimate.facts.fact import rows


def checksum(label: str) -> str:
    """Eight digits that tell a row by its label."""
    return f"{zlib.crc32(label.encode()):08x}"


@cache
def _known() -> dict[tuple[str, str], frozenset[str]]:
    return {(row["bench"], row["source"]): frozenset(row["checksums"].split()) for row in rows("fitted_rows.csv")}


def chosen_on(bench: str, source: str, label: str) -> bool:
    """Whether this row of a source was among those that the constants of a bench ("memory" or "time") were chosen
    on."""
    return checksum(label) in _known().get((bench, source), frozenset())
