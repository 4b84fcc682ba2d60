"""How ranks are wired: links of a latency and a bandwidth per level, and the ports that messages share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of link: what two ranks use whose smallest common unit is of this level."""

    name: str  # "node": the link inside a node
    ranks: int | None  # ranks in one such unit; None for all
    latency: float  # s per message
    bandwidth: float  # bytes/s, one direction of one port
    shared: bool = False  # the ranks of a unit one level down share one port (else each rank has its own)

    def __post_init__(self) -> None:
        if self.latency < 0 or not self.latency < math.inf:
            raise ValueError(f"Level {self.name!r}: latency is {self.latency} s; it must be 0 or more.")
        if not self.bandwidth > 0:
            raise ValueError(f"Level {self.name!r}: bandwidth is {self.bandwidth} bytes/s; it must be positive.")
        if self.ranks is not None and self.ranks < 1:
            raise ValueError(f"Level {self.name!r}: ranks is {self.ranks}; give the ranks in one unit, or None for all.")


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels from the innermost out, and a rank's speed of computing.

    Without arguments: one level of round teaching numbers (10 µs, 10 GB/s), which are no product's.
    """

    levels: tuple[Level, ...] = (Level("link", None, 10e-6, 10e9),)
    flops: float = 1e12  # FLOP/s of one rank, for computing that is charged by counted FLOPs

    def __post_init__(self) -> None:
        sizes = [level.ranks for level in self.levels]
        if not sizes:
            raise ValueError("Topology needs at least one level.")
        for inner, outer in zip(sizes, sizes[1:], strict=False):
            if inner is None or (outer is not None and (outer <= inner or outer % inner)):
                raise ValueError(
                    f"Topology levels hold {sizes} ranks; each must be a multiple of the one inside it, only the last may be None."
                )
        if not self.flops > 0:
            raise ValueError(f"Topology.flops is {self.flops} FLOP/s; it must be positive.")

    @classmethod
    def flat(cls, latency: float = 10e-6, bandwidth: float = 10e9, flops: float = 1e12) -> Self:
        """Every pair of ranks linked alike: `latency` in s per message, `bandwidth` in bytes/s and direction."""
        return cls((Level("link", None, latency, bandwidth),), flops)

    @classmethod
    def nodes(
        cls,
        ranks_per_node: int,
        inside: tuple[float, float] = (5e-6, 100e9),
        across: tuple[float, float] = (20e-6, 10e9),
        shared: bool = False,
        flops: float = 1e12,
    ) -> Self:
        """Nodes of `ranks_per_node`: (latency s, bandwidth bytes/s) inside and across; `shared`: one port a node, not a rank."""
        return cls((Level("node", ranks_per_node, *inside), Level("network", None, *across, shared)), flops)

    def level_of(self, src: int, dst: int) -> int:
        """Index of the level that joins two ranks."""
        for index, level in enumerate(self.levels):
            if level.ranks is None or src // level.ranks == dst // level.ranks:
                return index
        raise ValueError(f"No level of the topology joins rank {src} and rank {dst}; its largest unit holds {self.levels[-1].ranks}.")

    def port_of(self, rank: int, level: int) -> int:
        """Which port of the level the rank uses: its own, or its unit's where that is shared."""
        inner = self.levels[level - 1].ranks if level else 1
        return rank // inner if self.levels[level].shared and inner else rank


class Ports:
    """When each port is free again. A port serves one message at a time, in the order in which they are ready."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._free: dict[tuple[bool, int, int], float] = {}
        self._paths: dict[tuple[int, int], tuple[int, tuple[bool, int, int], tuple[bool, int, int], float, float]] = {}

    def path(self, src: int, dst: int) -> tuple[int, tuple[bool, int, int], tuple[bool, int, int], float, float]:
        """(level, port out, port in, latency in s, s per byte) between two ranks."""
        found = self._paths.get((src, dst))
        if found is None:
            level = self._topology.level_of(src, dst)
            kind = self._topology.levels[level]
            out = (True, level, self._topology.port_of(src, level))
            into = (False, level, self._topology.port_of(dst, level))
            found = self._paths[src, dst] = (level, out, into, kind.latency, 1.0 / kind.bandwidth)
        return found

    def carry(self, src: int, dst: int, nbytes: int, ready: float) -> tuple[int, float, float]:
        """Send `nbytes` once `ready`: (level, start, arrival) in s; both ports stay busy for the bytes' time."""
        level, out, into, latency, per_byte = self.path(src, dst)
        free = self._free
        start = max(ready, free.get(out, 0.0), free.get(into, 0.0))
        free[out] = free[into] = busy = start + nbytes * per_byte
        return level, start, busy + latency
