"""Failures of large training jobs and clusters as published. Needed from chapter 14 on."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, fact_of, find, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureLog:
    """What one report says about failures. None: it does not say."""

    name: str
    devices: Fact | None = None
    days: Fact | None = None
    device_hours: Fact | None = None
    interruptions: Fact | None = None  # planned ones included
    failures: Fact | None = None  # unplanned only
    goodput: Fact | None = None  # useful time over elapsed time
    earlier_goodput: Fact | None = None
    storage: Fact | None = None  # B/s
    checkpoint_hours: Fact | None = None
    restart_minutes: Fact | None = None
    node_day_rate: Fact | None = None  # failures per node and day; nodes of 8 devices
    measured_mttf_hours: Fact | None = None
    projected_mttf_hours: Fact | None = None
    memory_mtbe_ratio: Fact | None = None
    spare_fraction: Fact | None = None
    corruption_days: Fact | None = None

    @property
    def exposure(self) -> float | None:
        """Device-hours that the report covers."""
        if self.device_hours is not None:
            return float(self.device_hours)
        return None if self.devices is None or self.days is None else self.devices * self.days * 24

    @property
    def rate(self) -> float | None:
        """Unplanned failures per device-hour: counted, or from the rate of nodes of 8 devices."""
        if self.node_day_rate is not None:
            return self.node_day_rate / (8 * 24)
        return None if self.failures is None or self.exposure is None else self.failures / self.exposure


@cache
def _logs() -> dict[str, FailureLog]:
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("failure_logs.csv"):
        values.setdefault(row["log"], {})[row["field"]] = fact_of(row)
    return {name: FailureLog(name=name, **fields) for name, fields in values.items()}


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
