"""Wires of a cluster by level, and which of them the groups of a mesh cross. No torch.

Ranks fill a cluster in order: 0 to 7 are the first server, 0 to 15 the first rack, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from course_lib import facts, roofline
from course_lib.mesh.layout import Mesh
from course_lib.units import US

LATENCY = {
    "link": 5 * US,
    "network": 10 * US,
}  # s a message: a choice, the course's, for links inside and outside a server


@dataclass(frozen=True, slots=True)
class NetworkLevel:
    """The wires that join the units of one level: a server joins devices, a rack joins servers."""

    name: str
    devices: float  # in one such unit; infinite for a network without an end
    bandwidth: float  # bytes/s one way of each device, when all devices send across this level at once
    latency: float  # s of a message
    wire: str = "network"  # "link" inside a server or an NVLink domain


@dataclass(frozen=True, slots=True)
class Network:
    """Levels from the innermost outward."""

    name: str
    device: str
    levels: tuple[NetworkLevel, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Levels' names, innermost first."""
        return tuple(level.name for level in self.levels)

    def level(self, name: str) -> NetworkLevel:
        """The level of this name."""
        for level in self.levels:
            if level.name == name:
                return level
        raise ValueError(f"{self.name} has no level {name!r}; it has {', '.join(self.names)}.")

    def unit(self, index: int) -> int:
        """Devices in the units that level `index` joins: one device for the innermost."""
        return int(self.levels[index - 1].devices) if index else 1


def network(name: str) -> Network:
    """The wires of a topology of `facts.topologies`, or of servers of this device: "Llama 3 cluster", "B200 SXM".

    Beyond the largest unit that the topology describes, or beyond a server, lies a flat network: every device has its
    adapter for itself, and nothing is oversubscribed. ValueError for a device without an adapter in the facts.
    """
    if name in facts.topologies():
        device, levels = facts.device(facts.topology(name).device), []
        for level in roofline.levels(name)[1:]:
            levels.append(NetworkLevel(level.name, level.devices, level.bandwidth, LATENCY[level.wire], level.wire))
        if facts.topologies()[name].levels[-1].wire == "network":
            return Network(name, device.name, tuple(levels))
    else:
        device = facts.device(name)
        levels = [NetworkLevel("server", 8, float(device.link_one_way), LATENCY["link"], "link")]
    if device.network_one_way is None:
        known = ", ".join(each for each in ("A100 SXM 80GB", "H100 SXM", "B200 SXM", "GB200"))
        raise ValueError(f"No network adapter of {device.name} is in the facts; devices with one are {known}.")
    outer = NetworkLevel("network", inf, float(device.network_one_way), LATENCY["network"])
    return Network(name, device.name, (*levels, outer))


def with_adapter(net: Network, bandwidth: float) -> Network:
    """The same cluster with other network adapters, of `bandwidth` bytes/s one way for each device."""
    old = next(level.bandwidth for level in net.levels if level.wire == "network")
    levels = (
        replace(level, bandwidth=level.bandwidth * bandwidth / old) if level.wire == "network" else level
        for level in net.levels
    )
    return replace(net, levels=tuple(levels))


def _members(mesh: Mesh, axes: tuple[str, ...]) -> np.ndarray:
    """Groups along these axes as rows of ranks."""
    return np.array(mesh.groups(*axes))


def crossed(mesh: Mesh, axis: str | tuple[str, ...], network: Network) -> dict[str, int]:
    """For each level the number of groups whose outermost wire it is; groups of one rank cross none and are left out.

    Two ranks use the innermost level whose unit holds both; a group's outermost wire is that of its two farthest ranks.
    """
    axes = (axis,) if isinstance(axis, str) else tuple(axis)
    groups = _members(mesh, axes)
    found = dict.fromkeys(network.names, 0)
    if groups.shape[1] == 1:
        return found
    left = np.ones(len(groups), bool)
    for level in network.levels:
        inside = left & (groups[:, 0] // level.devices == groups[:, -1] // level.devices)
        found[level.name] = int(inside.sum())
        left &= ~inside
    if left.any():
        raise ValueError(
            f"The mesh has {mesh.size:,} ranks, and {network.name} holds {network.levels[-1].devices:,.0f} devices."
        )
    return found


def widest(mesh: Mesh, axis: str | tuple[str, ...], network: Network) -> str:
    """The outermost level that any group along this axis crosses; "" if the axis has one rank."""
    counts = crossed(mesh, axis, network)
    return next((name for name in reversed(network.names) if counts[name]), "")
