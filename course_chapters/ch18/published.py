"""Published times of launches, graphs and compiled steps, each with its source and conditions."""

from __future__ import annotations

from functools import cache

from course_lib.estimate.facts.fact import Fact, fact_of, find, rows

LIMITS = ("launch", "memory", "compute")  # what a kernel can take longest for


@cache
def launches() -> dict[str, Fact]:
    """All measurements by name, in base units: seconds, tokens/s."""
    return {row["key"]: fact_of(row) for row in rows("launches.csv")}


def measured(name: str) -> Fact:
    """One measurement, such as "eager operator"; ValueError with near names for one that is not there."""
    return find("measurement", name, launches())


def speedup(before: str, after: str) -> float:
    """How many times as fast the second measurement is; of rates and of times."""
    first, second = measured(before), measured(after)
    return first / second if first.unit == "s" else second / first
