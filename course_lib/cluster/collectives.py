"""Collectives built from send and receive, and what each costs.

All of them change the given tensor in place, like torch.distributed, and also return it, so that a run's results show
it. They accept any number of ranks, including one, and any size: chunks differ by at most one element, and rank r owns
chunk r. Nothing relies on a buffer: both halves of every exchange start as one operation.

Costs follow the latency-bandwidth model: a message of n bytes takes latency + n / bandwidth, and a rank sends one
message and receives one at a time. The model takes chunks as equal; uneven ones add at most one element per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from course_lib import cluster
from course_lib.estimate.units import Numeric, require, require_whole

if TYPE_CHECKING:  # the costs are arithmetic and must work without torch
    from torch import Tensor

    from course_lib.cluster import Comm, Work

SUM, AVG = "SUM", "AVG"  # as `course_lib.cluster` and torch call them

# --- helpers of several collectives


def chunks_of(flat: Tensor, parts: int) -> list[Tensor]:
    """Views of `flat`: `parts` chunks whose lengths differ by at most one, the longer ones first."""
    return list(flat.tensor_split(parts))


def swap(comm: Comm, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
    """Send to one rank and receive from another (or the same) as one operation; return when both are complete."""
    for work in _start(comm, outgoing, to, incoming, source):
        work.wait()


def _start(comm: Comm, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> list[Work]:
    halves = [cluster.P2POp(comm.irecv, incoming, source), cluster.P2POp(comm.isend, outgoing, to)]
    return comm.batch_isend_irecv(halves)


def _flat(x: Tensor) -> Tensor:
    """`x` as a flat tensor: a view if `x` is contiguous, otherwise a copy, which `_home` copies back."""
    return x.contiguous().view(-1)


def _home(x: Tensor, flat: Tensor) -> Tensor:
    """`x` with the numbers of its flat tensor; nothing to copy if both share memory."""
    return x if flat.data_ptr() == x.data_ptr() else x.copy_(flat.view(x.shape))


def _combine(op: str) -> Callable[[Tensor, Tensor], Tensor]:
    from course_lib.cluster.collective import OPS  # imports torch, which only a run needs

    if op not in OPS:
        raise ValueError(f"op is {op!r}; it must be one of {', '.join(OPS)}.")
    return OPS[op]


def _scatter_round(comm: Comm, ring: Sequence[int], chunks: list[Tensor], op: str) -> None:
    """Ring reduce-scatter among the ranks of `ring`: the i-th of them ends with chunk i complete."""
    combine, n, me = _combine(op), len(ring), ring.index(comm.rank)
    for step in range(n - 1):
        mine, theirs = chunks[(me - step - 1) % n], chunks[(me - step - 2) % n]
        arrived = theirs.new_empty(theirs.shape)
        swap(comm, mine, ring[(me + 1) % n], arrived, ring[(me - 1) % n])
        combine(theirs, arrived)
    if op == AVG:
        chunks[me].div_(n)


def _gather_round(comm: Comm, ring: Sequence[int], chunks: list[Tensor]) -> None:
    """Ring all-gather among the ranks of `ring`: the i-th contributes chunk i, and all end with all chunks."""
    n, me = len(ring), ring.index(comm.rank)
    for step in range(n - 1):
        mine, theirs = chunks[(me - step) % n], chunks[(me - step - 1) % n]
        swap(comm, mine, ring[(me + 1) % n], theirs, ring[(me - 1) % n])


# --- rings


def ring_reduce_scatter(comm: Comm, x: Tensor, op: str = SUM) -> Tensor:
    """Chunk r of the sum on rank r; the other chunks of `x` are left with partial sums.

    Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009), first half.
    """
    flat = _flat(x)
    chunks = chunks_of(flat, comm.size)
    _scatter_round(comm, range(comm.size), chunks, op)
    _home(x, flat)
    return chunks[comm.rank]


def ring_all_gather(comm: Comm, x: Tensor) -> Tensor:
    """`x` with chunk r taken from rank r, on every rank. Patarasuk & Yuan (2009), second half."""
    flat = _flat(x)
    _gather_round(comm, range(comm.size), chunks_of(flat, comm.size))
    return _home(x, flat)


def ring_all_reduce(comm: Comm, x: Tensor, op: str = SUM) -> Tensor:
    """The sum of all ranks' `x`, on every rank: reduce-scatter, then all-gather. Patarasuk & Yuan (2009)."""
    flat = _flat(x)
    chunks = chunks_of(flat, comm.size)
    _scatter_round(comm, range(comm.size), chunks, op)
    _gather_round(comm, range(comm.size), chunks)
    return _home(x, flat)


def pipelined_ring_all_reduce(
    comm: Comm, x: Tensor, op: str = SUM, pieces: int = 4, scratch: Tensor | None = None
) -> Tensor:
    """The sum as in `ring_all_reduce`, with each chunk sent in `pieces`, one behind the other, so that latencies
    overlap.

    A piece is passed on as soon as it is complete, while the next is in flight. NCCL's ring does this with its slices
    (Jeaugey, "Massively scale your deep learning training with NCCL 2.4", 2019). `scratch` is a flat tensor of x's
    dtype with room for one chunk, for reuse in the next call: newly allocated memory costs about as much time as the
    additions.
    """
    combine, n, me = _combine(op), comm.size, comm.rank
    flat = _flat(x)
    parts = [chunks_of(chunk, require_whole("pieces", pieces, "pieces")) for chunk in chunks_of(flat, n)]
    arrived = chunks_of(_scratch(scratch, parts[0]), pieces)  # chunk 0 is as long as any
    under_way: list[list[Work]] = [[] for _ in range(pieces)]
    hops = 2 * (n - 1)
    for hop in range(hops + 1):
        for piece in range(pieces):
            for work in under_way[piece]:
                work.wait()
            before = parts[(me - hop - 1) % n][piece]  # the chunk that the previous hop completed
            if 0 < hop <= n - 1:
                combine(before, arrived[piece][: before.numel()])
                if hop == n - 1 and op == AVG:
                    before.div_(n)
            if hop == hops:
                continue
            theirs = parts[(me - hop - 2) % n][piece]
            into = arrived[piece][: theirs.numel()] if hop < n - 1 else theirs
            under_way[piece] = _start(comm, before, (me + 1) % n, into, (me - 1) % n)
    return _home(x, flat)


def _scratch(given: Tensor | None, chunk: Sequence[Tensor]) -> Tensor:
    """Room for one chunk: the first numbers of `given`, or a new tensor."""
    room = sum(piece.numel() for piece in chunk)
    if given is None:
        return chunk[0].new_empty(room)
    if given.dim() != 1 or given.numel() < room or given.dtype != chunk[0].dtype:
        raise ValueError(
            f"scratch is {tuple(given.shape)} of {given.dtype}; a chunk needs a flat tensor of {room} numbers of "
            f"{chunk[0].dtype}."
        )
    return given[:room]


# --- trees and the naive way


def tree_broadcast(comm: Comm, x: Tensor, root: int = 0) -> Tensor:
    """The root's `x` on every rank, through a binomial tree: in every round, each rank that has it sends it to one
    more.

    Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH" (2005), section 4.
    """
    place, reach = (comm.rank - root) % comm.size, 1
    while reach < comm.size:
        if place < reach and place + reach < comm.size:
            comm.send(x, (place + reach + root) % comm.size)
        elif reach <= place < 2 * reach:
            comm.recv(x, (place - reach + root) % comm.size)
        reach *= 2
    return x


def tree_reduce(comm: Comm, x: Tensor, root: int = 0, op: str = SUM) -> Tensor:
    """The sum on the root: the binomial tree of `tree_broadcast`, from the leaves up. Other ranks keep partial sums."""
    combine, place = _combine(op), (comm.rank - root) % comm.size
    arrived, reach = x.new_empty(x.shape), 1 << max(comm.size - 1, 0).bit_length()
    while reach := reach // 2:
        if reach <= place < 2 * reach:
            comm.send(x, (place - reach + root) % comm.size)
        elif place < reach and place + reach < comm.size:
            comm.recv(arrived, (place + reach + root) % comm.size)
            combine(x, arrived)
    return x.div_(comm.size) if op == AVG and place == 0 else x


def tree_all_reduce(comm: Comm, x: Tensor, op: str = SUM) -> Tensor:
    """The sum on every rank: up a binomial tree and down again, with the whole tensor at every hop."""
    return tree_broadcast(comm, tree_reduce(comm, x, 0, op))


def naive_all_reduce(comm: Comm, x: Tensor, op: str = SUM) -> Tensor:
    """The sum on every rank, through rank 0, which receives every tensor and sends the sum back to each rank."""
    combine = _combine(op)
    if comm.rank:
        comm.send(x, 0)
        comm.recv(x, 0)
        return x
    arrived = x.new_empty(x.shape)
    for other in range(1, comm.size):
        comm.recv(arrived, other)
        combine(x, arrived)
    if op == AVG:
        x.div_(comm.size)
    for other in range(1, comm.size):
        comm.send(x, other)
    return x


# --- halving and doubling


def halving_doubling_all_reduce(comm: Comm, x: Tensor, op: str = SUM) -> Tensor:
    """The sum on every rank in about 2·log2(N) exchanges, whose sizes halve and then double. Any N.

    Rabenseifner's algorithm: Thakur, Rabenseifner & Gropp (2005), section 4.5. Ranks beyond the largest power of two
    first send their tensor to a partner and get the result at the end, which costs two whole messages more.
    """
    combine, n = _combine(op), comm.size
    core = 1 << (n.bit_length() - 1)
    flat = _flat(x)
    if comm.rank >= core:
        comm.send(flat, comm.rank - core)
        comm.recv(flat, comm.rank - core)
        return _home(x, flat)
    if comm.rank + core < n:
        arrived = flat.new_empty(flat.shape)
        comm.recv(arrived, comm.rank + core)
        combine(flat, arrived)
    _halve_and_double(comm, flat, core, combine)
    if op == AVG:
        flat.div_(n)
    if comm.rank + core < n:
        comm.send(flat, comm.rank + core)
    return _home(x, flat)


def _halve_and_double(comm: Comm, flat: Tensor, core: int, combine: Callable[[Tensor, Tensor], Tensor]) -> None:
    edges = [0]
    for chunk in chunks_of(flat, core):
        edges.append(edges[-1] + chunk.numel())
    low, high, path = 0, core, []  # the chunks that this rank is still responsible for, and its exchanges so far
    while (distance := (high - low) // 2) >= 1:
        middle, partner = low + distance, comm.rank ^ distance
        keep, give = ((low, middle), (middle, high)) if comm.rank < partner else ((middle, high), (low, middle))
        mine = flat[edges[keep[0]] : edges[keep[1]]]
        arrived = mine.new_empty(mine.shape)
        swap(comm, flat[edges[give[0]] : edges[give[1]]], partner, arrived, partner)
        combine(mine, arrived)
        path.append((partner, keep, give))
        low, high = keep
    for partner, keep, give in reversed(path):
        swap(comm, flat[edges[keep[0]] : edges[keep[1]]], partner, flat[edges[give[0]] : edges[give[1]]], partner)


# --- groups


def hierarchical_all_reduce(comm: Comm, x: Tensor, per_node: int, op: str = SUM) -> Tensor:
    """The sum on every rank, with the fewest bytes between nodes; a node is `per_node` consecutive ranks.

    Reduce-scatter inside each node, all-reduce of chunk i among the i-th ranks of all nodes, all-gather inside each
    node. All ranks of a node together send 2·S·(1 − 1/nodes) bytes to other nodes. Mikami et al., "Massively
    distributed SGD" (2018), 2D-torus.
    """
    nodes, odd = divmod(comm.size, require_whole("per_node", per_node, "ranks"))
    if odd:
        raise ValueError(f"{comm.size} ranks do not make nodes of {per_node}; choose a divisor of {comm.size}.")
    node, place = divmod(comm.rank, per_node)
    inside = range(node * per_node, (node + 1) * per_node)
    across = range(place, comm.size, per_node)
    flat = _flat(x)
    chunks = chunks_of(flat, per_node)
    plain = SUM if op == AVG else op
    _scatter_round(comm, inside, chunks, plain)
    mine = chunks_of(chunks[place], nodes)
    _scatter_round(comm, across, mine, plain)
    if op == AVG:
        mine[node].div_(comm.size)
    _gather_round(comm, across, mine)
    _gather_round(comm, inside, chunks)
    return _home(x, flat)


# --- all-to-all


def pairwise_all_to_all(comm: Comm, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """Fill `outputs[s]` with rank s's `inputs[this rank]` and return `outputs`. Sizes may differ; both sides know them.

    In step k, rank r sends to r + k and receives from r − k, so no rank receives from two ranks at once.
    Thakur, Rabenseifner & Gropp (2005), section 4.3.
    """
    outputs[comm.rank].copy_(inputs[comm.rank])
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        swap(comm, inputs[to], to, outputs[source], source)
    return outputs


def all_to_all(comm: Comm, parts: Sequence[Tensor]) -> list[Tensor]:
    """The rows that the ranks had for this one, in the order of their source. Only senders know the sizes, so counts go
    first.

    `parts[d]`, a flat tensor of any length, is for rank d.
    """
    from torch import int64

    sizes = [part.new_full((1,), part.numel(), dtype=int64) for part in parts]
    counts = pairwise_all_to_all(comm, [size.new_empty(1) for size in sizes], sizes)
    return list(pairwise_all_to_all(comm, [parts[0].new_empty(int(count)) for count in counts], parts))


# --- costs


@dataclass(frozen=True, slots=True)
class Cost:
    """Lowest cost of a collective in the latency-bandwidth model."""

    seconds: float  # s from the common start to the end of the last rank
    nbytes: float  # bytes that the busiest rank sends
    steps: int  # rounds in which a rank sends one message and receives one


def _given(nbytes: float, ranks: int, latency: float, bandwidth: float) -> tuple[float, int, float, float]:
    size = require("nbytes", nbytes, "bytes", open_below=False)
    return (
        size,
        require_whole("ranks", ranks, "ranks"),
        require("latency", latency, "s", open_below=False),
        1 / require("bandwidth", bandwidth, "bytes/s"),
    )


def message_cost(nbytes: float, latency: float, bandwidth: float) -> Cost:
    """Cost of one message: latency + bytes / bandwidth. Hockney (1994)."""
    size, _, alpha, beta = _given(nbytes, 1, latency, bandwidth)
    return Cost(alpha + size * beta, size, 1)


@overload
def ring_share(ranks: float) -> float: ...
@overload
def ring_share(ranks: np.ndarray) -> np.ndarray: ...
def ring_share(ranks: Numeric) -> Numeric:
    """The share of all bytes that each of N ranks sends in a ring all-gather or reduce-scatter: (N − 1)/N."""
    return (ranks - 1) / ranks


def ring_half_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of a ring reduce-scatter, or of a ring all-gather, of `nbytes` in total: N − 1 hops of one chunk."""
    size, n, alpha, beta = _given(nbytes, ranks, latency, bandwidth)
    return Cost((n - 1) * (alpha + size / n * beta), (n - 1) * size / n, n - 1)


def ring_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of a ring all-reduce: 2(N − 1)·(latency + S/N / bandwidth). Patarasuk & Yuan (2009)."""
    half = ring_half_cost(nbytes, ranks, latency, bandwidth)
    return Cost(2 * half.seconds, 2 * half.nbytes, 2 * half.steps)


def pipelined_ring_cost(nbytes: float, ranks: int, latency: float, bandwidth: float, pieces: int = 4) -> Cost:
    """Cost of a ring all-reduce in pieces: a hop takes the link's time for a chunk, or one piece's flight if that is
    longer."""
    size, n, alpha, beta = _given(nbytes, ranks, latency, bandwidth)
    hops, busy = 2 * (n - 1), size / n * beta  # s that a chunk keeps its link busy
    period = np.maximum(busy, alpha + busy / require_whole("pieces", pieces, "pieces"))
    seconds = (hops - 1) * period + busy + alpha if hops else 0.0 * busy
    return Cost(seconds, hops * size / n, hops * pieces)


def tree_half_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of a broadcast, or of a reduce, through a binomial tree: ⌈log2 N⌉ whole messages one after another."""
    size, n, alpha, beta = _given(nbytes, ranks, latency, bandwidth)
    rounds = (n - 1).bit_length()
    return Cost(rounds * (alpha + size * beta), rounds * size, rounds)


def tree_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of an all-reduce up and down a binomial tree; the root, rank 0, sends only on the way down."""
    half = tree_half_cost(nbytes, ranks, latency, bandwidth)
    return Cost(2 * half.seconds, half.nbytes, 2 * half.steps)


def halving_doubling_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of halving and doubling: a ring's bytes in 2·log2 N rounds; two whole messages more if N is not a power of
    two."""
    size, n, alpha, beta = _given(nbytes, ranks, latency, bandwidth)
    core = 1 << (n.bit_length() - 1)
    rounds, share, folded = 2 * (core.bit_length() - 1), 2 * ring_share(core) * size, core != n
    seconds = rounds * alpha + share * beta + 2 * folded * (alpha + size * beta)
    return Cost(seconds, share + folded * size, rounds + 2 * folded)


def hierarchical_cost(
    nbytes: float, nodes: int, per_node: int, inside: tuple[float, float], across: tuple[float, float]
) -> Cost:
    """Cost of the three-step all-reduce; `inside` and `across` are (latency s, bandwidth bytes/s) per rank and
    direction."""
    local = ring_half_cost(nbytes, per_node, *inside)
    between = ring_cost(nbytes / require_whole("per_node", per_node, "ranks"), nodes, *across)
    return Cost(2 * local.seconds + between.seconds, 2 * local.nbytes + between.nbytes, 2 * local.steps + between.steps)


def naive_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of an all-reduce through rank 0: 2(N − 1) whole messages one after another through one port."""
    size, n, alpha, beta = _given(nbytes, ranks, latency, bandwidth)
    return Cost(2 * (n - 1) * (alpha + size * beta), (n - 1) * size, 2 * (n - 1))


def all_to_all_cost(nbytes: float, ranks: int, latency: float, bandwidth: float) -> Cost:
    """Cost of a pairwise all-to-all in which every rank holds `nbytes`, one N-th of them for each rank."""
    return ring_half_cost(nbytes, ranks, latency, bandwidth)


ALL_REDUCES: Mapping[str, tuple[Callable[..., Tensor], Callable[..., Cost]]] = {
    "naive root": (naive_all_reduce, naive_cost),
    "tree": (tree_all_reduce, tree_cost),
    "ring": (ring_all_reduce, ring_cost),
    "pipelined ring": (pipelined_ring_all_reduce, pipelined_ring_cost),
    "halving-doubling": (halving_doubling_all_reduce, halving_doubling_cost),
}
"""All-reduces on identical links: the function and its cost."""


def ring_tree_crossover(ranks: int, latency: float, bandwidth: float) -> float:
    """Size in bytes above which a ring all-reduce is faster than a binomial tree; 0.0 if it always is."""
    _, n, alpha, beta = _given(0, ranks, latency, bandwidth)
    rounds = (n - 1).bit_length()
    return alpha * (n - 1 - rounds) / (beta * (rounds - ring_share(n))) if n > 2 else 0.0


# --- rings through several servers


def ranks_per_server(size: Numeric, stride: Numeric, per_server: int) -> Numeric:
    """How many ranks of a group are in one server, at least. The group's ranks are `stride` apart; a server has
    `per_server` in a row."""
    near = np.clip(per_server // stride, 1, size)
    reach = near * stride
    uneven = size % near + np.where(reach < per_server, per_server % reach, reach % per_server)
    if not np.any(uneven):
        return near
    return np.where(uneven, np.maximum(np.gcd(np.asarray(size * stride).astype(int), per_server) // stride, 1), near)


def ring_rate(size: Numeric, near: Numeric, inside: Numeric, across: Numeric) -> Numeric:
    """Bytes/s of a ring of `size` ranks with `near` of them in each server: the wire of every group, in every chapter.

    `inside` and `across` are the rates of one rank's link and of its adapter, one way. A ring leaves a server over the
    adapters of all its ranks there, as NCCL's channels do, and it is no faster than the links inside. Jeaugey (2019),
    "NCCL 2.4".
    """
    return np.where(near >= size, inside, np.minimum(inside, near * across))


# --- reported bandwidths

BUS_FACTORS: Mapping[str, Callable[[int], float]] = {  # NVIDIA/nccl-tests, doc/PERFORMANCE.md
    "all_reduce": lambda n: 2 * ring_share(n),
    "reduce_scatter": ring_share,
    "all_gather": ring_share,
    "all_to_all": ring_share,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "send_recv": lambda n: 1.0,
}
"""Ratio of bus bandwidth to algorithm bandwidth for N ranks; S is the whole tensor (all shards together)."""


def algorithm_bandwidth(nbytes: float, seconds: float) -> float:
    """Bytes of the tensor divided by the time, in bytes/s: what a caller gets; it falls with N."""
    return require("nbytes", nbytes, "bytes") / require("seconds", seconds, "s")


def bus_bandwidth(collective: str, nbytes: float, seconds: float, ranks: int) -> float:
    """Rate of one rank's link, in bytes/s, at which the best algorithm takes this time; comparable with a data
    sheet."""
    if collective not in BUS_FACTORS:
        raise ValueError(f"There is no bus factor for {collective!r}; choose from {', '.join(BUS_FACTORS)}.")
    return BUS_FACTORS[collective](require_whole("ranks", ranks, "ranks", least=2)) * algorithm_bandwidth(
        nbytes, seconds
    )
