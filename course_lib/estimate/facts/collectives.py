"""Measured bus bandwidths of collectives on GPUs, as published. Needed from chapter 06 on."""

from dataclasses import dataclass
from functools import cache

from course_lib.estimate.facts.fact import Fact, find, rows
from course_lib.estimate.units import GB


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured collective. Its bandwidth carries unit, source, date and condition."""

    collective: str  # a name of `collectives.BUS_FACTORS`
    device: str  # a name for `facts.device`
    ranks: int
    nodes: int
    nbytes: int  # the whole tensor; for gather and scatter all shards together
    bus_bandwidth: Fact  # bytes/s, as nccl-tests defines it
    url: str


@cache
def _series() -> dict[str, tuple[Measured, ...]]:
    found: dict[str, list[Measured]] = {}
    for row in rows("collective_bandwidth.csv"):
        rate = Fact(float(row["value"]) * GB, "B/s", row["source"], row["date"], row["condition"])
        made = Measured(
            row["collective"], row["device"], int(row["ranks"]), int(row["nodes"]), int(row["nbytes"]), rate, row["url"]
        )
        found.setdefault(row["key"], []).append(made)
    return {
        key: tuple(sorted(many, key=lambda one: (one.collective, one.nbytes, one.ranks))) for key, many in found.items()
    }


def series(key: str) -> tuple[Measured, ...]:
    """The measurements called `key`, such as "8 × A100", by size and then by ranks."""
    return find("series of measured collectives", key, _series())


def all_series() -> dict[str, tuple[Measured, ...]]:
    """All series by name."""
    return dict(_series())


def one(key: str, collective: str = "all_reduce", nodes: int | None = None) -> Measured:
    """A single measurement of a series: the one of this collective, on this many nodes if given."""
    fitting = [each for each in series(key) if each.collective == collective and nodes in (None, each.nodes)]
    if len(fitting) != 1:
        raise ValueError(
            f"{len(fitting)} measurements of {key!r} are {collective} on {nodes or 'any number of'} nodes; name one of "
            f"{sorted({(each.collective, each.nodes) for each in series(key)})}, or read the whole series."
        )
    return fitting[0]
