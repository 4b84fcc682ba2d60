"""How long the groups of a mesh communicate on given wires, and in which order its axes should be placed. No torch.

A ring passes the border of a server once, however many of the server's devices are in it. So what counts at a border is
the number of groups that cross it: with g groups, each rank sending S bytes, g·S bytes leave over the adapters of all
devices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from course_lib.estimate.units import require
from course_lib.parallel.mesh.layout import Mesh
from course_lib.parallel.mesh.wires import Axes, Network, border_groups, each_axis


def axis_seconds(mesh: Mesh, axis: Axes, nbytes: float, network: Network) -> float:
    """Seconds in which every rank sends `nbytes` to its next neighbor along `axis`, all groups at once; no latency.

    The wire that takes longest decides: at each level, the bytes that leave a unit over the bandwidth of its devices.
    """
    return shared_seconds(mesh, {axis: nbytes}, network)


def shared_seconds(mesh: Mesh, nbytes: Mapping[Axes, float], network: Network) -> float:
    """Seconds of several axes that communicate at the same time: what they send over one wire adds up."""
    require("bytes", min(nbytes.values(), default=0), "bytes", open_below=False)
    slowest = 0.0
    for index, level in enumerate(network.levels):
        unit = network.unit(index)
        leaving = sum(border_groups(mesh, axis, unit) * sent for axis, sent in nbytes.items())
        slowest = max(slowest, leaving / (unit * level.bandwidth))
    return slowest


@dataclass(frozen=True, slots=True)
class Placement:
    """One order of the axes, and the seconds that each communicates."""

    mesh: Mesh
    seconds: Mapping[Axes, float]

    @property
    def total(self) -> float:
        """Seconds of all axes, one after another."""
        return sum(self.seconds.values())

    @property
    def order(self) -> str:
        """Axes of more than one rank, slowest first."""
        return " ".join(f"{axis}{size}" for axis, size in self.mesh.sizes.items() if size > 1)


def placements(
    sizes: Mapping[str, int], nbytes: Mapping[Axes, float] | Mapping[str, float], network: Network
) -> list[Placement]:
    """Every order of the axes with its seconds, the quickest first. `nbytes` is what a rank sends in a step."""
    loads: dict[Axes, float] = dict(nbytes.items())
    sent = {axes: loads[axes] for axes in loads if any(sizes.get(axis, 1) > 1 for axis in each_axis(axes))}
    known = {axis for axes in sent for axis in each_axis(axes)}
    missing = [axis for axis, size in sizes.items() if size > 1 and axis not in known]
    if missing:
        raise ValueError(
            f"How many bytes does a rank send along {missing[0]}? nbytes has {', '.join(map(str, nbytes)) or 'none'}."
        )
    wide = [axis for axis, size in sizes.items() if size > 1]
    rest = [axis for axis, size in sizes.items() if size == 1]
    found = []
    for order in permutations(wide):
        mesh = Mesh({axis: sizes[axis] for axis in (*rest, *order)})
        seconds: dict[Axes, float] = {axes: axis_seconds(mesh, axes, count, network) for axes, count in sent.items()}
        found.append(Placement(mesh, seconds))
    return sorted(found, key=lambda each: each.total)


def finish_times(transfers: Sequence[tuple[float, float]], bandwidth: float) -> list[float]:
    """When each transfer (start s, bytes) over one adapter ends, if those under way share its bytes/s equally."""
    require("bandwidth", bandwidth, "bytes/s")
    left = [float(nbytes) for _, nbytes in transfers]
    ends = [float(start) for start, _ in transfers]
    waiting = sorted((place for place in range(len(left)) if left[place] > 0), key=lambda place: transfers[place][0])
    active: list[int] = []
    now = transfers[waiting[0]][0] if waiting else 0.0
    while waiting or active:
        while waiting and transfers[waiting[0]][0] <= now:
            active.append(waiting.pop(0))
        if not active:
            now = transfers[waiting[0]][0]
            continue
        shortest = min(active, key=lambda place: left[place])
        until = now + left[shortest] * len(active) / bandwidth
        if waiting:
            until = min(until, transfers[waiting[0]][0])
        sent = (until - now) * bandwidth / len(active)
        complete = until >= now + left[shortest] * len(active) / bandwidth
        for place in active:
            left[place] = max(0.0, left[place] - sent)
        if complete:
            left[shortest] = 0.0
        now = until
        for place in [place for place in active if left[place] == 0.0]:
            ends[place] = now
            active.remove(place)
    return ends
