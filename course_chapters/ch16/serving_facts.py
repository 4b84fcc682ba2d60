"""Serving as published: throughput and latency of engines, and a day of a large service."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, fact_of, find, reference, rows


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow:
    """One published measurement of an engine."""

    source: str  # key of the reference
    engine: str
    model: str  # a name of `facts.models`
    device: str  # a name of `facts.devices`
    devices: int
    tp: int
    weight_size: float  # bytes per parameter
    kv_size: float  # bytes per number of the KV cache
    batch: int  # sequences computed together; 0: as many as the engine takes
    prompt: int  # tokens
    output: int  # tokens
    metric: str  # "throughput": output tokens/s of all devices; "first_token", "token": seconds
    value: Fact

    @property
    def label(self) -> str:
        """What was measured, in a line."""
        many = f"batch {self.batch}" if self.batch else "in flight"
        return (
            f"{self.model} on {self.devices} {self.device}, TP {self.tp}, {self.prompt}/{self.output}, {many}, "
            f"{self.metric}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDay:
    """A day of a service: nodes of 8 devices, tokens, rates and cost."""

    name: str
    nodes: Fact  # on average
    peak_nodes: Fact
    input_tokens: Fact
    cached_tokens: Fact  # of them, found in the prefix cache
    cached_share: Fact  # as printed
    output_tokens: Fact
    node_input_rate: Fact  # tokens/s of a prefill node, cached ones included
    node_output_rate: Fact  # tokens/s of a decode node
    low_user_rate: Fact  # output tokens/s that one user sees
    high_user_rate: Fact
    context: Fact  # tokens in the KV cache, on average over output tokens
    device_hour: Fact
    cost: Fact
    revenue: Fact


@cache
def serving_rows(source: str | None = None) -> Sequence[ServingRow]:
    """Published measurements, all of them or those of one source."""
    every = tuple(
        ServingRow(
            source=row["source"],
            engine=row["engine"],
            model=row["model"],
            device=row["device"],
            metric=row["metric"],
            weight_size=float(row["weight_size"]),
            kv_size=float(row["kv_size"]),
            value=fact_of(row),
            **{name: int(row[name]) for name in ("devices", "tp", "batch", "prompt", "output")},
        )
        for row in rows("serving.csv")
    )
    if source is None:
        return every
    known = {row.source: None for row in every}
    find("source of serving rows", source, known)
    return tuple(row for row in every if row.source == source)


@cache
def service_day(name: str = "DeepSeek-V3/R1") -> ServiceDay:
    """The day of the service called `name`."""
    values: dict[str, dict[str, Fact]] = {}
    for row in rows("service_days.csv"):
        values.setdefault(row["service"], {})[row["field"]] = fact_of(row)
    return find("service", name, {key: ServiceDay(name=key, **fields) for key, fields in values.items()})


def serving_sources() -> dict[str, str]:
    """Keys of the sources with rows, with the name of each."""
    return {row.source: reference(row.source).short for row in serving_rows()}
