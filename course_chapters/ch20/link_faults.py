"""Network faults on the metered cluster: a slow adapter, a slow direction, one slow path, a rail that is down.

The nodes have a fast link inside and an adapter for each GPU. GPUs with the same place in their nodes form a *rail*:
their adapters meet at the same switch. If a rail is down, its GPUs send through the adapter of the rail beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from course_lib.cluster import Comm, Level, Topology, collectives, simulate
from course_lib.estimate.units import GB, MB, US, require

NODES, PER_NODE = 4, 4
RANKS = NODES * PER_NODE
INSIDE, ACROSS = (2 * US, 400 * GB), (5 * US, 50 * GB)  # latency in s, bandwidth in bytes/s, one way
SLOWDOWN = 4.0
NETWORK, SICK = 1, 2  # numbers of levels
NBYTES, PAIR_BYTES = int(4 * MB), int(MB)  # of a collective on each rank, and of one message of the pairwise test


@dataclass(frozen=True)
class Fault:
    """What is wrong with a network: which pairs of ranks are slow, or which rail is down."""

    slow: Callable[[int, int], bool] = lambda src, dst: False
    rail: int | None = None


BAD, OTHER = 5, 10  # the rank with the fault, and the other end of a path
FAULTS: Mapping[str, Fault] = {
    "none": Fault(),
    "slow adapter": Fault(lambda src, dst: BAD in (src, dst)),
    "slow in one direction": Fault(lambda src, dst: src == BAD),
    "one slow path": Fault(lambda src, dst: (src, dst) == (BAD, OTHER)),
    "a rail down": Fault(rail=BAD % PER_NODE),
}


class FaultyTopology(Topology):
    """Nodes of `PER_NODE` ranks whose network has a fault; a slow link has its bandwidth divided by `SLOWDOWN`."""

    def __init__(self, fault: Fault) -> None:
        latency, bandwidth = ACROSS
        network = Level("network", 10**6, latency, bandwidth)
        super().__init__(
            (Level("node", PER_NODE, *INSIDE), network, Level("slow link", None, latency, bandwidth / SLOWDOWN))
        )
        object.__setattr__(self, "fault", fault)

    fault: Fault

    def level_of(self, src: int, dst: int) -> int:
        """The level of a pair: its own one where the network between them is slow."""
        level = super().level_of(src, dst)
        return SICK if level == NETWORK and self.fault.slow(src, dst) else level

    def port_of(self, rank: int, level: int) -> int:
        """The adapter of a rank: its neighbor's where its rail is down."""
        return rank ^ 1 if level and rank % PER_NODE == self.fault.rail else rank


def _all_to_all(comm: Comm, x: torch.Tensor) -> None:
    parts = list(x.chunk(comm.size))
    collectives.pairwise_all_to_all(comm, [torch.empty_like(each) for each in parts], parts)


COLLECTIVES: Mapping[str, Callable[..., object]] = {
    "ring all-reduce": collectives.ring_all_reduce,
    "tree all-reduce": collectives.tree_all_reduce,
    "all-reduce by rails": lambda comm, x: collectives.hierarchical_all_reduce(comm, x, PER_NODE),
    "all-to-all": _all_to_all,
}
"""By rails: inside the nodes first, then one ring for each rail, as NCCL's channels use all adapters."""


def _filled(comm: Comm, work: Callable[..., object], count: int) -> None:
    work(comm, torch.zeros(count, dtype=torch.uint8))


@lru_cache(maxsize=128)
def seconds(collective: str, fault: str, nbytes: int = NBYTES) -> float:
    """Seconds of a collective of `nbytes` on each rank."""
    topology = FaultyTopology(FAULTS[fault])
    return simulate(_filled, RANKS, (COLLECTIVES[collective], nbytes), topology=topology).seconds


def _shift(comm: Comm, by: int, nbytes: int) -> None:
    x = torch.zeros(nbytes, dtype=torch.uint8)
    collectives.swap(comm, x, (comm.rank + by) % comm.size, torch.empty_like(x), (comm.rank - by) % comm.size)


@lru_cache(maxsize=64)
def pair_seconds(fault: str, nbytes: int = PAIR_BYTES) -> Sequence[Sequence[float]]:
    """Seconds from each rank to each other, [source][target], in the rounds of a pairwise all-to-all.

    In round k every rank sends to the rank k further, so that all adapters work at once; 0 on the diagonal.
    """
    found = [[0.0] * RANKS for _ in range(RANKS)]
    topology = FaultyTopology(FAULTS[fault])
    for by in range(1, RANKS):
        for each in simulate(_shift, RANKS, (by, nbytes), topology=topology).messages:
            found[each.src][each.dst] = each.arrived
    return found


def flapping_steps(collective: str, down: float, steps: int, seed: int = 0) -> list[float]:
    """Seconds of a collective in each of `steps` steps if the adapter is slow in a share `down` of them."""
    require("down", down, "a fraction of the steps", most=1, open_below=False)
    coin = torch.Generator().manual_seed(seed)
    times = [seconds(collective, fault) for fault in ("none", "slow adapter")]
    return [times[int(each < down)] for each in torch.rand(steps, generator=coin)]
