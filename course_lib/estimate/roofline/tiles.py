"""Tiles: the bytes of a matmul through a finite cache, and its speed in whole tiles and whole waves."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from course_lib.estimate.compute import matmul_flops
from course_lib.estimate.units import Numeric, require, require_whole


def tile_loads(m: Numeric, k: Numeric, n: Numeric, tile_m: Numeric, tile_n: Numeric) -> Numeric:
    """Elements of A and B loaded for C = A·B, each tile of C finished before the next one and never loaded.

    A (m, k) is read once for every column of tiles, B (k, n) once for every row of tiles. This holds if the cache
    has room for exactly the three tiles in use; `count_loads` counts the loads in a loop.
    """
    sizes = [require_whole(name, value) for name, value in (("m", m), ("k", k), ("n", n))]
    rows, columns = (_ceil(sizes[0], require_whole("tile_m", tile_m)), _ceil(sizes[2], require_whole("tile_n", tile_n)))
    return sizes[0] * sizes[1] * columns + sizes[1] * sizes[2] * rows


@dataclass(frozen=True, slots=True)
class Loads:
    """Elements of A and B loaded into a cache, and elements of C written back."""

    a: int
    b: int
    written: int

    @property
    def loaded(self) -> int:
        """Elements of A and B together."""
        return self.a + self.b


def count_loads(m: int, k: int, n: int, tile_m: int, tile_n: int, tile_k: int, cache: int) -> Loads:
    """Elements loaded by a tiled matmul's loops through a cache of `cache` elements that evicts the least recently
    used.

    The loops go over rows of tiles, columns of tiles, then along k; a tile of C stays in the cache until it is
    finished. ValueError if the cache has no room for the three tiles in use.
    """
    sizes = [require_whole(name, value) for name, value in (("m", m), ("k", k), ("n", n))]
    tile_m, tile_n, tile_k = (
        min(require_whole(name, tile), size)
        for (name, tile), size in zip(
            (("tile_m", tile_m), ("tile_n", tile_n), ("tile_k", tile_k)), (m, n, k), strict=True
        )
    )
    working = tile_m * tile_n + tile_m * tile_k + tile_k * tile_n
    if require_whole("cache", cache, "elements") < working:
        raise ValueError(f"cache is {cache} elements; the three tiles in use need {working}.")
    held: OrderedDict[tuple[str, int, int], int] = OrderedDict()
    fetched, used = {"a": 0, "b": 0}, 0

    def touch(kind: str, i: int, j: int, elements: int, pinned: int) -> None:
        nonlocal used
        if (kind, i, j) in held:
            held.move_to_end((kind, i, j))
            return
        fetched[kind] += elements
        held[kind, i, j] = elements
        used += elements
        while used + pinned > cache:
            used -= held.popitem(last=False)[1]

    m, k, n = sizes
    for i in range(0, m, tile_m):
        height = min(tile_m, m - i)
        for j in range(0, n, tile_n):
            width = min(tile_n, n - j)
            for l in range(0, k, tile_k):  # noqa: E741 – the textbook's letter
                depth = min(tile_k, k - l)
                touch("a", i, l, height * depth, height * width)
                touch("b", l, j, depth * width, height * width)
    return Loads(fetched["a"], fetched["b"], m * n)


def tiled_intensity(n: int, tile: int, size: float = 2) -> float:
    """FLOP per byte of an n × n × n matmul in tiles of tile × tile, C written once."""
    elements = tile_loads(n, n, n, tile, tile) + n * n
    return matmul_flops(n, n, n) / (elements * require("size", size, "bytes per element"))


# --- quantization ------------------------------------------------------------------------------


def tiles(m: Numeric, n: Numeric, tile_m: Numeric = 128, tile_n: Numeric = 128) -> Numeric:
    """Tiles that cover an output of (m, n): part of a tile counts as a whole one."""
    rows = _ceil(require_whole("m", m), require_whole("tile_m", tile_m))
    return rows * _ceil(require_whole("n", n), require_whole("tile_n", tile_n))


def waves(tiles: Numeric, sms: Numeric) -> Numeric:
    """Rounds in which `sms` processors compute the tiles, one each: part of a round takes as long as a whole one."""
    return _ceil(require_whole("tiles", tiles), require_whole("sms", sms))


def quantization(m: Numeric, n: Numeric, tile_m: Numeric = 128, tile_n: Numeric = 128, sms: Numeric = 132) -> Numeric:
    """The fraction of the peak that whole tiles and whole waves leave to an output of (m, n).

    A model of one kernel with one tile per processor at a time; real libraries choose among kernels and split k.
    """
    busy = waves(tiles(m, n, tile_m, tile_n), sms) * sms * (tile_m * tile_n)
    share = np.asarray(m, dtype=float) * np.asarray(n, dtype=float) / busy
    return float(share) if np.ndim(share) == 0 else share


def dips(sizes: Sequence[int], share: Sequence[float] | np.ndarray) -> list[int]:
    """The sizes at which the share is lower than at the size before: a new tile or a new wave starts there."""
    shares = np.asarray(share, dtype=float)
    if len(sizes) != len(shares):
        raise ValueError(f"There are {len(sizes)} sizes and {len(shares)} shares; give one for each.")
    fell = np.flatnonzero(np.diff(shares) < -1e-12) + 1
    return [sizes[int(index)] for index in fell]


def _ceil(value: Numeric, by: Numeric) -> Numeric:
    """Whole division, rounded up; for ints or arrays of whole numbers."""
    return -(-value // by)
