"""The byte matrices of eight algorithms, as a switch would count them, computed without a run."""

from collections.abc import Callable

from course_lib.cluster.collective import chunk_sizes

Matrix = list[list[int]]


def _blank(n: int) -> Matrix:
    return [[0] * n for _ in range(n)]


def _ring(counted: Matrix, ring: list[int], chunks: list[int]) -> None:
    """Add the elements that a ring all-reduce of these chunks sends among the ranks of `ring`."""
    n = len(ring)
    for place, rank in enumerate(ring):
        if n > 1:
            counted[rank][ring[(place + 1) % n]] += 2 * sum(chunks) - chunks[place] - chunks[(place + 1) % n]


def ring(n: int, elements: int, per_node: int) -> Matrix:
    """Reduce-scatter and all-gather of chunks."""
    counted = _blank(n)
    _ring(counted, list(range(n)), chunk_sizes(elements, n))
    return counted


def whole_ring(n: int, elements: int, per_node: int) -> Matrix:
    """Whole tensors around the ring, N − 1 hops."""
    return [[(n - 1) * elements * (dst == (src + 1) % n) for dst in range(n)] for src in range(n)]


def naive_root(n: int, elements: int, per_node: int) -> Matrix:
    """To rank 0 and back."""
    return [[elements * ((src == 0) != (dst == 0)) for dst in range(n)] for src in range(n)]


def tree(n: int, elements: int, per_node: int) -> Matrix:
    """Up and down a binomial tree with root 0."""
    counted, reach = _blank(n), 1
    while reach < n:
        for rank in range(min(reach, n - reach)):
            counted[rank][rank + reach] = counted[rank + reach][rank] = elements
        reach *= 2
    return counted


def halving_doubling(n: int, elements: int, per_node: int) -> Matrix:
    """Halves exchanged with partners at powers of two; surplus ranks are folded in first."""
    counted, core = _blank(n), 1 << (n.bit_length() - 1)
    for rank in range(core, n):
        counted[rank][rank - core] = counted[rank - core][rank] = elements
    chunks = chunk_sizes(elements, core)
    for rank in range(core):
        low, high = 0, core
        while (distance := (high - low) // 2) >= 1:
            middle = low + distance
            mine, theirs = ((low, middle), (middle, high)) if not rank & distance else ((middle, high), (low, middle))
            counted[rank][rank ^ distance] += sum(chunks[slice(*theirs)]) + sum(chunks[slice(*mine)])
            low, high = mine
    return counted


def hierarchical(n: int, elements: int, per_node: int) -> Matrix:
    """Rings inside nodes, and rings of chunk i among the i-th ranks of all nodes."""
    counted, chunks = _blank(n), chunk_sizes(elements, per_node)
    for node in range(n // per_node):
        _ring(counted, list(range(node * per_node, (node + 1) * per_node)), chunks)
    for place in range(per_node):
        _ring(counted, list(range(place, n, per_node)), chunk_sizes(chunks[place], n // per_node))
    return counted


def all_to_all(n: int, elements: int, per_node: int) -> Matrix:
    """A different N-th of the tensor to each rank."""
    chunks = chunk_sizes(elements, n)
    return [[0 if src == dst else chunks[dst] for dst in range(n)] for src in range(n)]


def everyone(n: int, elements: int, per_node: int) -> Matrix:
    """The whole tensor to every other rank."""
    return [[0 if src == dst else elements for dst in range(n)] for src in range(n)]


TRAFFIC: dict[str, Callable[[int, int, int], Matrix]] = {
    "naive root": naive_root,
    "tree": tree,
    "ring": ring,
    "whole-tensor ring": whole_ring,
    "halving-doubling": halving_doubling,
    "hierarchical": hierarchical,
    "all-to-all": all_to_all,
    "everyone to everyone": everyone,
}


def matrix_of(name: str, n: int, elements: int, item: int, per_node: int) -> Matrix:
    """Bytes from each rank to each other in one call."""
    return [[count * item for count in row] for row in TRAFFIC[name](n, elements, per_node)]
