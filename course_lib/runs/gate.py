"""One question asked of evidence, and how far two numbers of one file may be apart."""

from __future__ import annotations

from dataclasses import dataclass

ERROR = 1.05  # a clock's error, and a data sheet's rounding
APART = (
    20.0  # times that numbers may differ which one cause explains: a step and its rates or its trace, kinds on one link
)


@dataclass(frozen=True)
class Gate:
    """One question asked of evidence."""

    name: str
    ok: bool
    found: str
