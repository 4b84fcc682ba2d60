"""Failures of large training jobs and clusters as published. Needed from chapter 14 on."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, Number, Sheet, fact_of, find, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLog(Sheet):
    """What one report says about failures. It need not say everything."""

    devices = Number()
    days = Number()
    device_hours = Number()
    interruptions = Number()  # planned ones included
    failures = Number()  # unplanned only
    goodput = Number()  # useful time over elapsed time
    earlier_goodput = Number()
    storage = Number()  # B/s
    checkpoint_hours = Number()
    restart_minutes = Number()
    node_day_rate = Number()  # failures per node and day; nodes of 8 devices
    measured_mttf_hours = Number()
    projected_mttf_hours = Number()
    memory_mtbe_ratio = Number()
    spare_fraction = Number()
    corruption_days = Number()

    @property
    def exposure(self) -> float:
        """Device-hours that the report covers."""
        return float(self.get("device_hours") or self.devices * self.days * 24)

    @property
    def rate(self) -> float:
        """Unplanned failures per device-hour: counted, or from the rate of nodes of 8 devices."""
        if self.get("node_day_rate") is not None:
            return self.node_day_rate / (8 * 24)
        return self.failures / self.exposure


@cache
def _logs() -> dict[str, FailureLog]:
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("failure_logs.csv"):
        values.setdefault(row["log"], {})[row["field"]] = fact_of(row)
    return {name: FailureLog(name=name, numbers=fields) for name, fields in values.items()}


def failure_log(name: str) -> FailureLog:
    """The report called `name`, such as "Llama 3.1 405B" or "RSC-1"."""
    return find("failure log", name, _logs())


def failure_logs() -> dict[str, FailureLog]:
    """All reports by name."""
    return dict(_logs())


@cache
def _causes() -> dict[str, Fact]:
    return {row["cause"]: fact_of(row) for row in rows("interruption_causes.csv")}


def interruption_causes() -> dict[str, Fact]:
    """How many of Llama 3's 419 unplanned interruptions each cause explains, most frequent first."""
    return dict(_causes())
