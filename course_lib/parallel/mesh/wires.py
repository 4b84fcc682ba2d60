"""Wires of a cluster by level, and which of them the groups of a mesh cross. No torch.

Ranks fill a cluster in order: 0 to 7 are the first server, 0 to 15 the first rack, and so on.
"""

from dataclasses import dataclass
from math import inf, prod

import numpy as np

from course_lib.estimate import facts, roofline
from course_lib.parallel.mesh.layout import Mesh


@dataclass(frozen=True, slots=True)
class NetworkLevel:
    """The wires that join the units of one level: a server joins devices, a rack joins servers."""

    name: str
    devices: float  # in one such unit; infinite for a network without an end
    bandwidth: float  # bytes/s one way of each device, when all devices send across this level at once
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
            levels.append(NetworkLevel(level.name, level.devices, level.bandwidth, level.wire))
        if facts.topologies()[name].levels[-1].wire == "network":
            return Network(name, device.name, tuple(levels))
    else:
        device = facts.device(name)
        levels = [NetworkLevel("server", 8, float(device.link_one_way), "link")]
    if device.get("network_one_way") is None:
        known = ", ".join(each for each in ("A100 SXM 80GB", "H100 SXM", "B200 SXM", "GB200"))
        raise ValueError(f"No network adapter of {device.name} is in the facts; devices with one are {known}.")
    outer = NetworkLevel("network", inf, float(device.network_one_way))
    return Network(name, device.name, (*levels, outer))


def _members(mesh: Mesh, axes: tuple[str, ...]) -> np.ndarray:
    """Groups along these axes as rows of ranks."""
    return np.array(mesh.groups(*axes))


Axes = str | tuple[str, ...]  # one axis, or several that make joint groups


def each_axis(axes: Axes) -> tuple[str, ...]:
    """The axes as a tuple."""
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _as_one(mesh: Mesh, axes: tuple[str, ...]) -> tuple[int, int] | None:
    """Stride and size of the single axis that joint axes amount to; None if another axis lies between them."""
    wide = [axis for axis in mesh.axes if mesh.sizes[axis] > 1]
    joint = [axis for axis in wide if axis in axes]
    if not joint:
        return 1, 1
    first = wide.index(joint[0])
    if wide[first : first + len(joint)] != joint:
        return None
    return mesh.stride(joint[-1]), prod(mesh.sizes[axis] for axis in joint)


def border_groups(mesh: Mesh, axis: Axes, unit: int) -> int:
    """The most groups along `axis` that cross the border of one unit of `unit` devices: a server, a rack, a pod."""
    axes = each_axis(axis)
    if (one := _as_one(mesh, axes)) is None:
        return _counted(mesh, axes, unit)
    stride, size = one
    if size == 1:
        return 0
    if unit == 1:
        return 1
    if mesh.size % unit == 0:
        if unit % (stride * size) == 0:
            return 0
        if stride % unit == 0:
            return unit
        if unit % stride == 0 and (stride * size) % unit == 0:
            return stride
    return _counted(mesh, axes, unit)


def _counted(mesh: Mesh, axes: tuple[str, ...], unit: int) -> int:
    """The same by looking at every rank."""
    units = _members(mesh, axes) // unit
    crossing = units.min(1) != units.max(1)
    touched = {(int(at), group) for group in np.flatnonzero(crossing) for at in set(units[group].tolist())}
    counts = np.bincount([at for at, _ in touched], minlength=1)
    return int(counts.max())


def crossed(mesh: Mesh, axis: Axes, network: Network) -> dict[str, int]:
    """For each level the number of groups whose outermost wire it is; groups of one rank cross none and are left out.

    Two ranks use the innermost level whose unit holds both; a group's outermost wire is that of its two farthest ranks.
    """
    groups = _members(mesh, each_axis(axis))
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


def widest(mesh: Mesh, axis: Axes, network: Network) -> str:
    """The outermost level that any group along this axis crosses; "" if the axis has one rank."""
    if mesh.size > network.levels[-1].devices:
        crossed(mesh, axis, network)  # says which groups it cannot hold
    crossing = (name for at, name in enumerate(network.names) if border_groups(mesh, axis, network.unit(at)))
    return max(crossing, key=network.names.index, default="")
