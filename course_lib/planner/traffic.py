"""Bytes that one rank sends in a step, by axis, and the seconds of each axis before anything hides them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from course_lib.memory.layout import Layout
from course_lib.memory.shapes import expert_params, layer_params
from course_lib.planner.cluster import Cluster
from course_lib.planner.constants import MESSAGE_SECONDS
from course_lib.planner.job import Job
from course_lib.planner.wires import exchange_seconds, gather_seconds, message_rate, reduce_seconds

WIDTH = 2.0  # bytes of an activation or a weight as it is sent


def strides(layout: Layout) -> dict[str, Any]:
    """The distance between neighbors of each axis, innermost first: tensor, context, data, pipeline.

    Experts are shared out over neighboring context and data ranks.
    """
    context = layout.tp
    data = context * layout.cp
    return {"tp": 1, "cp": context, "ep": context, "dp": data, "pp": data * layout.dp}


def tensor_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Any) -> tuple[Any, Any]:
    """Tensor parallelism's two all-reduces of a layer's b s h, forward and again backward. Shoeybi et al. (2019).

    With sequence parallelism each is a reduce-scatter and an all-gather: the same bytes. Korthikanti et al. (2022).
    """
    nbytes = WIDTH * batch * job.seq / layout.cp * job.shape.hidden
    once = 2 * reduce_seconds(nbytes, layout.tp, 1, cluster)
    return once, once


def context_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Any) -> tuple[Any, Any]:
    """Context parallelism's keys and values of the whole sequence, gathered forward; gathered, and their gradients scattered, backward."""
    nbytes = WIDTH * 2 * batch * job.seq * job.shape.kv_width / layout.tp
    once = gather_seconds(nbytes, layout.cp, layout.tp, cluster)
    return once, 2 * once


def expert_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Any) -> tuple[Any, Any]:
    """Expert parallelism's two all-to-alls (to the experts and back) of top_k copies of each token, forward and again backward."""
    one = job.shape
    if not np.any(one.experts):
        return 0.0, 0.0
    nbytes = WIDTH * batch * job.seq / layout.cp * one.top_k * one.hidden / layout.sp_ways
    once = 2 * exchange_seconds(nbytes, layout.ep, layout.tp, cluster) * (one.expert_layers / one.layers)
    return once, once


def message_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Any) -> Any:
    """One message between neighboring stages: b s h, of which each tensor-parallel rank sends its share. Narayanan et al. (2021), 4.1."""
    nbytes = WIDTH * batch * job.seq / layout.cp * job.shape.hidden / layout.tp
    stride = strides(layout)["pp"]
    return np.where(layout.pp > 1, MESSAGE_SECONDS + nbytes / message_rate(stride, cluster), 0.0)


@dataclass(frozen=True, slots=True)
class Sync:
    """What data parallelism exchanges, in seconds."""

    gather: Any  # all weights of a rank once, from the ranks that share them
    scatter: Any  # all gradients of a rank once


def rank_params(job: Job, layout: Layout) -> tuple[Any, Any]:
    """Parameters on a rank of the first stage: those that all data ranks share, and its experts."""
    one = job.shape
    layers = one.layers / layout.pp
    experts = layers * expert_params(one, layout.tp, layout.ep) if np.any(one.experts) else 0.0
    tables = np.where(np.equal(layout.pp, 1), 1 if one.tied else 2, 1) * one.vocab * one.hidden / layout.tp
    dense = layers * layer_params(one, layout.tp, layout.ep) - experts + tables
    return dense, experts


def data_seconds(job: Job, cluster: Cluster, layout: Layout) -> Sync:
    """Data parallelism's gathered weights and scattered gradients; with replicas (HSDP), gradients are also summed over these."""
    dense, experts = rank_params(job, layout)
    ranks, stride = layout.dp * layout.cp, layout.tp
    width = job.software.grad_bytes
    shards = ranks / layout.replicas
    gather = gather_seconds(WIDTH * dense, shards, stride, cluster)
    scatter = gather_seconds(width * dense, shards, stride, cluster)
    scatter = scatter + reduce_seconds(width * dense / shards, layout.replicas, stride * shards, cluster)
    if np.any(job.shape.experts):
        across = ranks / layout.ep
        gather = gather + gather_seconds(WIDTH * experts, across, stride * layout.ep, cluster)
        scatter = scatter + gather_seconds(width * experts, across, stride * layout.ep, cluster)
    return Sync(gather, scatter)
