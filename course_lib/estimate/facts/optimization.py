"""Schedules, batches and scaling laws as published, and the course's own recorded trainings. Needed from chapter 04
on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from course_lib.estimate.facts.fact import Fact, fact_of, find, rows

TARGET = 0.8  # nats per token: the loss that the recorded runs of the critical batch had to reach
RECORDED = files("course_lib.estimate.facts") / "data" / "optimizer_runs.json"


@dataclass(frozen=True, slots=True)
class ComputeOptimal:
    """One row of a published table: a model's size, and the FLOPs and tokens that are said to train it best."""

    params: Fact
    flops: Fact
    tokens: Fact


@cache
def _values() -> dict[str, dict[str, Fact]]:
    found: dict[str, dict[str, Fact]] = {}
    for row in rows("optimization.csv"):
        found.setdefault(row["key"], {})[row["field"]] = fact_of(row)
    return found


def published(key: str) -> Mapping[str, Fact]:
    """Values by field of "llama3-405b" (schedule and batches), "llama3-law" or "chinchilla-law"."""
    return find("published optimization", key, _values())


@cache
def compute_optimal_models() -> tuple[ComputeOptimal, ...]:
    """Hoffmann et al.'s Table 3, smallest model first."""
    units = {"params": "param", "flops": "FLOP", "tokens": "token"}
    return tuple(
        ComputeOptimal(*(fact_of({**row, "value": row[name], "unit": unit}) for name, unit in units.items()))
        for row in rows("compute_optimal.csv")
    )


@cache
def recorded_runs() -> dict[str, Any]:
    """The course's own small trainings, as `course bench optimizer --write` recorded them: experiments by name, and
    "machine"."""
    return json.loads(RECORDED.read_text(encoding="utf-8"))
