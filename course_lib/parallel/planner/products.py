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


def product_seconds(m: Numeric, k: Numeric, n: Numeric, cluster: Cluster, rate: Numeric, width: float = 2.0) -> Numeric:
    """Seconds of an (m, k) by (k, n) product at `rate` FLOP/s if it is large; `width` is bytes per element.

    The output is cut into tiles of 128 x 128, one processor each. Fewer tiles than processors leave some idle. The
    product lasts no shorter than its bytes need. NVIDIA, "Matrix multiplication background user's guide" (2023),
    sections 3 and 4.
    """
    moved = width * (m * k + k * n + m * n) / cluster.memory_rate
    return np.maximum(_tiled(np.ceil(m / TILE) * np.ceil(n / TILE), k, cluster, rate), moved) + KERNEL_SECONDS


def layer_seconds(
    m: Numeric, k: Numeric, n: Numeric, cluster: Cluster, rate: Numeric, width: float = 2.0
) -> tuple[Numeric, Numeric, Numeric]:
    """Seconds of Y = X W with X of (m, k), of dX = dY Wᵀ and of dW = Xᵀ dY: `product_seconds` of three products of the
    same bytes."""
    moved = width * (m * k + k * n + m * n) / cluster.memory_rate
    rows, depths, columns = (np.ceil(size / TILE) for size in (m, k, n))
    each = ((rows * columns, k), (rows * depths, n), (depths * columns, m))
    seconds = (np.maximum(_tiled(tiles, depth, cluster, rate), moved) + KERNEL_SECONDS for tiles, depth in each)
    forward, inputs, weights = seconds
    return forward, inputs, weights
