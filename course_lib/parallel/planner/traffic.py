"""Bytes that one rank sends in a step, by axis, and the seconds of each axis before anything hides them."""

from dataclasses import dataclass

import numpy as np

from course_lib.cluster.collectives import ring_share
from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.memory.shapes import expert_params, layer_params
from course_lib.estimate.units import Numeric
from course_lib.parallel.context.costs import Traffic, gather_traffic
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.constants import MESSAGE_SECONDS
from course_lib.parallel.planner.job import Job
from course_lib.parallel.planner.wires import (
    gather_seconds,
    message_rate,
    ranks_per_node,
    reduce_seconds,
    start_seconds,
)
from course_lib.parallel.sharding.comm_costs import bytes_per_param_sent
from course_lib.parallel.tensor.traffic import tp_passes

WIDTH = 2.0  # bytes of an activation or a weight as it is sent


def strides(layout: Layout) -> dict[str, Numeric]:
    """The distance between neighbors of each axis, innermost first: tensor, context, data, pipeline.

    Experts are shared out over neighboring context and data ranks.
    """
    context = layout.tp
    data = context * layout.cp
    return {"tp": 1, "cp": context, "ep": context, "dp": data, "pp": data * layout.dp}


def tensor_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> tuple[Numeric, Numeric]:
    """Tensor parallelism's collectives of a layer's b s h, forward and backward: `tensor_passes`, in seconds."""
    nbytes = WIDTH * batch * job.seq / layout.cp * job.shape.hidden
    one = gather_seconds(nbytes, layout.tp, 1, cluster)
    forward, backward = tensor_passes(job, layout)
    return forward * one, backward * one


def tensor_passes(job: Job, layout: Layout) -> tuple[Numeric, Numeric]:
    """How often a layer's activations pass around the tensor-parallel ring in 16 bits, forward and backward, without
    recomputation. With sequence parallelism half of the passes are gathers; in 8 bits one of them counts half."""
    narrow = 0.75 if job.dtype != "bf16" and job.software.narrow_gathers else 1.0
    forms = [tp_passes(sequence_parallel=sp, regather=job.software.regather) for sp in (False, True)]
    each = ((plain, narrow * split) for plain, split in zip(*forms, strict=True))
    return tuple(np.where(layout.sp_ways > 1, split, plain) for plain, split in each)


def context_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> tuple[Numeric, Numeric]:
    """Context parallelism's keys and values (`context_traffic`) around a ring, forward, and backward with their
    gradients: the seconds of the bytes, and of the messages' latencies, which nothing hides."""
    part = WIDTH * 2 * batch * job.seq / layout.cp * job.shape.kv_width_on(layout.tp)
    reach = layout.cp * layout.tp
    rate = np.where(np.greater(reach, cluster.per_node), cluster.across.bandwidth, cluster.inside.bandwidth)
    return (layout.cp - 1) * part / rate, (layout.cp - 1) * MESSAGE_SECONDS


def context_traffic(job: Job, layout: Layout, batch: Numeric, width: float = WIDTH) -> Traffic:
    """What context parallelism sends for one layer and micro-batch: keys and values are gathered again for the backward
    pass, not kept.

    A recomputed forward pass gathers them for the backward pass as well, so full recomputation sends no more.
    """
    return gather_traffic(batch * job.seq, job.shape.kv_width_on(layout.tp), 1, layout.cp, width)


def expert_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> tuple[Numeric, Numeric]:
    """Expert parallelism's two all-to-alls (to the experts and back), forward and again backward.

    Inside a server each of a token's top_k copies travels. Between servers, one copy goes to each server that has any
    of its experts and is copied there: of n servers, n (1 - (1 - 1/n)^top_k) under even routing, n being those of the
    groups that it may visit (DeepSeek-AI 2024, sections 2.1.2 and 3.2.2).
    """
    one = job.shape
    if not np.any(one.experts):
        return 0.0, 0.0
    token = WIDTH * batch * job.seq / layout.cp * one.hidden / layout.sp_ways
    near = ranks_per_node(layout.ep, layout.tp, cluster)
    nodes = layout.ep / near
    open_ = np.maximum(nodes * one.groups_visited / one.router_groups, 1)
    servers = open_ * (1 - (1 - 1 / open_) ** one.top_k)
    inside = token * one.top_k * ring_share(near) / cluster.inside.bandwidth
    outside = token * servers * ring_share(nodes) / cluster.across.bandwidth
    start = np.where(layout.ep > 1, start_seconds(layout.ep, near, cluster), 0.0)
    once = 2 * (start + np.maximum(inside, outside)) * (one.expert_layers / one.layers)
    return once, once


def message_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Numeric:
    """One message between neighboring stages, b s h.

    With sequence parallelism, or with Megatron's scatter and gather (Narayanan et al. 2021, 4.1), a tensor-parallel
    rank sends its share.
    """
    share = layout.tp if job.software.split_messages else layout.sp_ways
    nbytes = WIDTH * batch * job.seq / layout.cp * job.shape.hidden / share
    stride = strides(layout)["pp"]
    return np.where(layout.pp > 1, MESSAGE_SECONDS + nbytes / message_rate(stride, cluster), 0.0)


@dataclass(frozen=True, slots=True)
class Sync:
    """What data parallelism exchanges, in seconds."""

    gather: Numeric  # all weights of a rank once, from the ranks that share them
    scatter: Numeric  # all gradients of a rank once


def rank_params(job: Job, layout: Layout) -> tuple[Numeric, Numeric]:
    """Parameters on a rank of the first stage: those that all data ranks share, and its experts."""
    one = job.shape
    layers = one.layers / layout.pp
    experts = layers * expert_params(one, layout.tp, layout.ep) if np.any(one.experts) else 0.0
    tables = np.where(np.equal(layout.pp, 1), 1 if one.tied else 2, 1) * one.vocab * one.hidden / layout.tp
    dense = layers * layer_params(one, layout.tp, layout.ep) - experts + tables
    return dense, experts


def experts_alike(layout: Layout) -> Numeric:
    """Ranks that hold the same experts and sum their gradients; one where expert parallelism takes the tensor ranks in
    as well."""
    return np.maximum(layout.dp * layout.cp // layout.ep, 1)


def data_seconds(job: Job, cluster: Cluster, layout: Layout) -> Sync:
    """Data parallelism's gathered weights and scattered gradients, one message a layer; with replicas (HSDP), gradients
    are also summed."""
    dense, experts = rank_params(job, layout)
    ranks, stride = layout.dp * layout.cp, layout.tp
    width = job.software.grad_bytes
    shards = ranks // layout.replicas
    messages = job.shape.layers / layout.pp
    gather = gather_seconds(WIDTH * dense, shards, stride, cluster, messages)
    scatter = gather_seconds(width * dense, shards, stride, cluster, messages)
    if np.any(np.greater(layout.replicas, 1)):
        scatter = scatter + reduce_seconds(width * dense / shards, layout.replicas, stride * shards, cluster)
    if np.any(job.shape.experts):
        across = experts_alike(layout)
        gather = gather + gather_seconds(WIDTH * experts, across, stride * layout.ep, cluster)
        scatter = scatter + gather_seconds(width * experts, across, stride * layout.ep, cluster)
    return Sync(gather, scatter)


def data_bytes(layout: Layout, weight: float, gradient: float) -> Numeric:
    """Bytes per parameter that a very large data ring sends in a step: once, or under ZeRO-3 for every micro-batch."""
    often = np.where(np.equal(layout.zero, 3), layout.microbatches, 1)
    return often * np.choose(
        np.asarray(layout.zero), [bytes_per_param_sent(stage, weight, gradient) for stage in range(4)]
    )


def stage_borders(layout: Layout) -> Numeric:
    """Borders that a micro-batch crosses between ranks: between all chunks, since the last rank's chunk sends to the
    first rank's next one."""
    return np.where(np.greater(layout.pp, 1), layout.pp * layout.virtual - 1, 0)


def traffic(job: Job, layout: Layout, width: float = WIDTH, gradient: float | None = None) -> dict[str, Numeric]:
    """Bytes that one rank sends in a step by axis, the mean over ranks, in the layers and for the gradients.

    `width` is bytes of an activation or weight, `gradient` of a gradient as it is reduced, by default the software's.
    Rings send (n - 1)/n of what is gathered or scattered. Left out: what the embedding, the head and the loss exchange
    over tensor ranks.
    """
    one, m = job.shape, layout.microbatches
    batch = job.sequences / (layout.dp * m)
    residual = width * batch * job.seq / layout.cp * one.hidden
    layers = one.layers / layout.pp
    again = 1 if job.recompute == "full" else 0  # the forward pass runs twice, with its messages
    forward, backward = tensor_passes(job, layout)
    keys = context_traffic(job, layout, batch, width)
    share = layout.tp if job.software.split_messages else layout.sp_ways
    dense, experts = rank_params(job, layout)
    ranks = layout.dp * layout.cp
    visits = one.top_k * one.expert_layers / one.layers if np.any(one.experts) else 0.0
    return {
        "tp": m * layers * ((1 + again) * forward + backward) * ring_share(layout.tp) * residual,
        "cp": m * layers * keys.nbytes,
        "ep": m * layers * (4 + 2 * again) * ring_share(layout.ep) * visits * residual / layout.sp_ways,
        "pp": m * 2 * stage_borders(layout) / layout.pp * residual / share,
        "dp": data_bytes(layout, width, job.software.grad_bytes if gradient is None else gradient)
        * (ring_share(ranks) * dense + ring_share(experts_alike(layout)) * experts),
    }
