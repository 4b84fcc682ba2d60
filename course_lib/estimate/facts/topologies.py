"""How devices are put together: servers, racks, pods, clusters, with what each holds and what its wires share."""

from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from course_lib.estimate.facts.fact import Fact, fact_of, find, rows

Wire = Literal["memory", "link", "network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLevel:
    """One level of a topology: a server holds devices, a rack holds servers, and so on."""

    name: str
    of: str  # the level inside; "" for the device itself
    wire: Wire  # what bytes cross: a device's memory, the links of a server, the network
    note: str
    holds: Fact | None = None  # how many of the level inside; None for the device itself
    adapters: Fact | None = None  # network adapters of one server, where a source says so
    oversubscription: Fact | None = None  # what its members could send, over what passes; None: everything passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Levels from the device out."""

    name: str
    device: str  # a name for `facts.device`
    levels: tuple[TopologyLevel, ...]

    def devices(self, level: str) -> int:
        """Devices in one unit of this level."""
        count = 1
        for each in self.levels:
            count *= int(each.holds or 1)
            if each.name == level:
                return count
        raise ValueError(f"{self.name} has no level {level!r}; it has {', '.join(each.name for each in self.levels)}.")


@cache
def _topologies() -> dict[str, Topology]:
    values: dict[tuple[str, str], dict[str, Fact]] = {}
    for row in rows("topologies.csv"):
        values.setdefault((row["topology"], row["level"]), {})[row["field"]] = fact_of(row)
    named: dict[str, list[dict[str, str]]] = {}
    for row in rows("topology_names.csv"):
        named.setdefault(row["topology"], []).append(row)
    return {
        name: Topology(
            name=name,
            device=levels[0]["device"],
            levels=tuple(
                TopologyLevel(
                    name=row["level"],
                    of=row["of"],
                    wire=cast(Wire, row["wire"]),
                    note=row["note"],
                    **values.get((name, row["level"]), {}),
                )
                for row in levels
            ),
        )
        for name, levels in named.items()
    }


def topology(name: str) -> Topology:
    """The topology called `name`, such as "Llama 3 cluster"."""
    return find("topology", name, _topologies())


def topologies() -> dict[str, Topology]:
    """All topologies by name."""
    return dict(_topologies())
