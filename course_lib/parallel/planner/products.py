"""Seconds of a matrix product by its shape: whole tiles, waves of tiles, aligned widths, and the bytes that must
move."""

import numpy as np

from course_lib.estimate.units import Numeric
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.constants import ALIGNED, KERNEL_SECONDS, LAST_WAVE, TILE, UNALIGNED_SHARE


def aligned_share(width: Numeric) -> Numeric:
    """The share of the rate that a product keeps if one of its dimensions is `width` elements wide."""
    blocks = width / ALIGNED
    return np.where(blocks == np.floor(blocks), 1.0, UNALIGNED_SHARE)


def busy_waves(tiles: Numeric, cluster: Cluster) -> Numeric:
    """Waves of so many tiles: the processors take one each, wave after wave, and the last wave is not full."""
    waves = tiles / cluster.processors
    return np.where(waves > 1, waves + LAST_WAVE, 1.0)


def _tiled(tiles: Numeric, depth: Numeric, cluster: Cluster, rate: Numeric) -> Numeric:
    """Seconds of so many tiles, each `depth` deep."""
    busy = busy_waves(tiles, cluster)
    return busy * depth * (2.0 * cluster.processors * TILE * TILE) / rate


def product_seconds(
    m: Numeric, k: Numeric, n: Numeric, cluster: Cluster, rate: Numeric, width: float = 2.0, written: Numeric = 2.0
) -> Numeric:
    """Seconds of an (m, k) by (k, n) product at `rate` FLOP/s if it is deep; bytes per element are `width` of the
    inputs and `written` of the result.

    The output is cut into tiles of 128 x 128, one processor each. Fewer tiles than processors leave some idle. Inputs
    arrive while a processor multiplies, but a tile leaves after its last product, so the bytes of the result come on
    top. The product lasts no shorter than its bytes need. NVIDIA, "Matrix multiplication background user's guide"
    (2023), sections 3 and 4; CUTLASS documentation, "Efficient GEMM in CUDA", on the epilogue.
    """
    leaving = written * m * n / cluster.memory_rate
    arriving = width * (m * k + k * n) / cluster.memory_rate
    busy = _tiled(np.ceil(m / TILE) * np.ceil(n / TILE), k, cluster, rate)
    return np.maximum(busy, arriving) + leaving + KERNEL_SECONDS


def layer_seconds(
    m: Numeric, k: Numeric, n: Numeric, cluster: Cluster, rate: Numeric, width: float = 2.0, gradient: Numeric = 2.0
) -> tuple[Numeric, Numeric, Numeric]:
    """Seconds of Y = X W with X of (m, k), of dX = dY Wᵀ and of dW = Xᵀ dY: `product_seconds`, the last with
    `gradient` bytes for each weight."""
    forward, inputs = (product_seconds(*sizes, cluster, rate, width) for sizes in ((m, k, n), (m, n, k)))
    return forward, inputs, product_seconds(k, m, n, cluster, rate, width, gradient)
