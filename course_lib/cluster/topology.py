"""Links between ranks: a latency and a bandwidth per level."""

import math
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of link. Two ranks use the level of the smallest unit that contains both."""

    name: str  # "node": the link inside a node
    ranks: int | None  # ranks in one such unit; None for all
    latency: float  # s per message
    bandwidth: float  # bytes/s, one direction of one port
    shared: bool = False  # whether the ranks of a unit one level down share one port (otherwise each has its own)

    def __post_init__(self) -> None:
        if self.latency < 0 or not self.latency < math.inf:
            raise ValueError(f"Level {self.name!r}: latency is {self.latency} s; it must be 0 or more.")
        if not self.bandwidth > 0:
            raise ValueError(f"Level {self.name!r}: bandwidth is {self.bandwidth} bytes/s; it must be positive.")
        if self.ranks is not None and self.ranks < 1:
            raise ValueError(
                f"Level {self.name!r}: ranks is {self.ranks}; give the ranks in one unit, or None for all."
            )


@dataclass(frozen=True, slots=True)
class Topology:
    """Levels from the innermost outward, and the compute rate of a rank.

    Without arguments: one level with round teaching numbers (10 µs, 10 GB/s), not those of a product.
    """

    levels: tuple[Level, ...] = (Level("link", None, 10e-6, 10e9),)
    flops: float = 1e12  # FLOP/s of one rank, for compute charged by counted FLOPs

    def __post_init__(self) -> None:
        sizes = [level.ranks for level in self.levels]
        if not sizes:
            raise ValueError("Topology needs at least one level.")
        for inner, outer in zip(sizes, sizes[1:], strict=False):
            if inner is None or (outer is not None and (outer <= inner or outer % inner)):
                raise ValueError(
                    f"Topology levels hold {sizes} ranks; each must be a multiple of the one inside it, only the last "
                    f"may be None."
                )
        if not self.flops > 0:
            raise ValueError(f"Topology.flops is {self.flops} FLOP/s; it must be positive.")

    @classmethod
    def flat(cls, latency: float = 10e-6, bandwidth: float = 10e9, flops: float = 1e12) -> Self:
        """Identical links between all pairs: `latency` in s per message, `bandwidth` in bytes/s per direction."""
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
        """Nodes of `ranks_per_node`: (latency s, bandwidth bytes/s) inside and across; `shared`: one port per node, not
        per rank."""
        return cls((Level("node", ranks_per_node, *inside), Level("network", None, *across, shared)), flops)

    def level_of(self, src: int, dst: int) -> int:
        """Index of the level that connects two ranks."""
        for index, level in enumerate(self.levels):
            if level.ranks is None or src // level.ranks == dst // level.ranks:
                return index
        most = self.levels[-1].ranks
        raise ValueError(f"No level of the topology connects rank {src} and rank {dst}; its largest unit holds {most}.")

    def port_of(self, rank: int, level: int) -> int:
        """The port that a rank uses at a level: its own, or its unit's if the level is shared."""
        inner = self.levels[level - 1].ranks if level else 1
        return rank // inner if self.levels[level].shared and inner else rank
