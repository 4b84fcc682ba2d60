"""Seconds of a matrix product by its shape: whole tiles, waves of tiles, aligned widths, and the bytes that must move."""

from typing import Any

import numpy as np

from course_lib.planner.cluster import Cluster
from course_lib.planner.constants import ALIGNED, KERNEL_SECONDS, LAST_WAVE, TILE, UNALIGNED_SHARE


def aligned_share(width: Any) -> Any:
    """The share of the rate that a product keeps if one of its dimensions is `width` elements wide."""
    return np.where(np.mod(width, ALIGNED) == 0, 1.0, UNALIGNED_SHARE)


def product_seconds(m: Any, k: Any, n: Any, cluster: Cluster, rate: Any, width: float = 2.0) -> Any:
    """Seconds of an (m, k) by (k, n) product at `rate` FLOP/s if it is large; `width` is bytes per element.

    The output is cut into tiles of 128 x 128, one processor each. Fewer tiles than processors leave some idle. The product lasts
    no shorter than its bytes need. NVIDIA, "Matrix multiplication background user's guide" (2023), sections 3 and 4.
    """
    waves = np.ceil(m / TILE) * np.ceil(n / TILE) / cluster.processors
    busy = np.where(waves > 1, waves + LAST_WAVE, 1.0) * cluster.processors * TILE * TILE
    moved = width * (m * k + k * n + m * n)
    return np.maximum(2.0 * busy * k / rate, moved / cluster.memory_rate) + KERNEL_SECONDS
