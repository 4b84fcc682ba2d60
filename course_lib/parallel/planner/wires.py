"""Which wire a group of ranks crosses, and the seconds of a collective over it.

A group is described by its size and its stride: the group's ranks are `stride` apart, and a server holds consecutive
ranks.
"""

import numpy as np

from course_lib.cluster.collectives import ranks_per_server, ring_rate, ring_share
from course_lib.estimate.units import Numeric
from course_lib.parallel.planner.cluster import Cluster


def ranks_per_node(size: Numeric, stride: Numeric, cluster: Cluster) -> Numeric:
    """How many ranks of the group are in one server."""
    return size if cluster.gpus <= cluster.per_node else ranks_per_server(size, stride, cluster.per_node)


def start_seconds(size: Numeric, near: Numeric, cluster: Cluster) -> Numeric:
    """Seconds before the bytes count: one latency for each doubling of the reach, inside and then across, and each
    rank's hop.

    These are the rounds of a tree (`tree_half_cost`): where latency counts, a library takes one. A plain ring pays for
    every hop (`ring_half_cost`).
    """
    start = cluster.inside.latency * np.log2(near) + cluster.across.latency * np.log2(np.maximum(size / near, 1))
    return start + np.where(near < size, cluster.across.hop * (size - 1), 0.0) if cluster.across.hop else start


def gather_seconds(nbytes: Numeric, size: Numeric, stride: Numeric, cluster: Cluster, messages: Numeric = 1) -> Numeric:
    """Seconds of an all-gather or a reduce-scatter of `nbytes` in total: (n - 1)/n of them pass every rank, in so many
    messages."""
    near = ranks_per_node(size, stride, cluster)
    moved = nbytes * ring_share(size) / ring_rate(size, near, cluster.inside.bandwidth, cluster.across.bandwidth)
    return messages * start_seconds(size, near, cluster) + moved


def reduce_seconds(nbytes: Numeric, size: Numeric, stride: Numeric, cluster: Cluster) -> Numeric:
    """Seconds of an all-reduce: a reduce-scatter and an all-gather. Patarasuk & Yuan (2009)."""
    return 2 * gather_seconds(nbytes, size, stride, cluster)


def message_rate(stride: Numeric, cluster: Cluster) -> Numeric:
    """Bytes/s between two ranks `stride` apart."""
    return np.where(stride >= cluster.per_node, cluster.across.bandwidth, cluster.inside.bandwidth)
