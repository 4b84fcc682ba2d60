"""How many ranks should share one model: memory, bytes on fast and slow links, and exposed time. No torch.

Full sharding over all ranks is one extreme, plain replicas are the other. HSDP lies between them: groups of G ranks
shard one model each, and the N/G groups average their parts. Zhao et al., "PyTorch FSDP" (2023), section 3.2.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.cluster.collectives import ranks_per_server, ring_half_cost, ring_rate, ring_share
from course_lib.estimate import compute, memory
from course_lib.estimate.units import require_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """Two levels of links, inside a server of `per_node` GPUs and between servers: bytes/s one way, and seconds per
    message."""

    per_node: int
    fast: float
    slow: float
    fast_latency: float = 0.0
    slow_latency: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Bytes and seconds of one step on each rank, for one group size."""

    ranks: int  # that share one model
    state: float  # bytes held
    inside: float  # bytes sent within the group: two gathers, a reduce-scatter
    across: float  # bytes sent to the other groups: the all-reduce of a part
    far: float  # bytes that its adapter sends between servers, of `inside` and `across` together
    computing: float
    talking: float  # seconds of communication
    exposed: float  # the part of `talking` that computing cannot hide

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.computing + self.exposed


def group_of(
    params: float,
    ranks: int,
    group: int,
    tokens: float,
    flops_per_s: float,
    wires: Wires,
    *,
    units: int = 1,
    gather: int = 2,
    reduce: int = 2,
    convention: str = "B",
) -> Group:
    """One step of FSDP inside groups of `group` ranks and data parallelism across groups, with `tokens` on each of
    `ranks` ranks.

    A group of at most a server uses the links inside. A larger one is a ring through servers (`collectives.ring_rate`),
    and all of its traffic is on the adapters. The forward pass hides one gather, the backward pass the rest; fast and
    slow links work in parallel.
    """
    shared, copies = require_whole("group", group, "ranks"), ranks // group
    if ranks % shared:
        raise ValueError(f"group={group} does not divide {ranks} ranks; choose a divisor.")
    part = ring_share(shared)
    together, rate, start = _ring(shared, 1, ranks, wires)
    _, rate_across, start_across = _ring(copies, shared, ranks, wires)
    near = together == shared
    once, back = (units * start + part * width * params / rate for width in (gather, reduce))
    inside, across = part * (2 * gather + reduce) * params, 2 * ring_share(copies) * reduce * params / shared
    between = 2 * units * start_across + across / rate_across
    work = compute.train_flops(params, tokens) / flops_per_s
    forward, backward = work / 3, 2 * work / 3
    behind = max(once + back, between) if near else once + back + between
    exposed = max(0.0, once - forward) + max(0.0, behind - backward)
    state = float(memory.zero_bytes(params, 3, shared, convention))
    return Group(
        ranks=shared,
        state=state,
        inside=inside,
        across=across,
        far=across if near else inside / together + across,
        computing=work,
        talking=2 * once + back + between,
        exposed=exposed,
    )


def _ring(size: int, stride: int, ranks: int, wires: Wires) -> tuple[int, float, float]:
    """Of a ring: its ranks in each server, bytes/s, and the seconds of its hops before the bytes count."""
    near = size if ranks <= wires.per_node else int(ranks_per_server(size, stride, wires.per_node))
    latency = wires.fast_latency if near == size else wires.slow_latency
    rate = float(ring_rate(size, near, wires.fast, wires.slow))
    return near, rate, ring_half_cost(0, size, latency, rate).seconds


def knee(groups: Sequence[Group], most_bytes: float) -> Group | None:
    """The group with the shortest step among those that fit; the smallest of equal ones; None if none fits."""
    fits = [each for each in groups if each.state <= most_bytes]
    return min(fits, key=lambda each: (each.seconds, each.ranks), default=None)
