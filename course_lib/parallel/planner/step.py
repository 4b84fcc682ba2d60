"""Seconds of one training step by cause: the sum of the terms of the other modules, pipelined and overlapped.

A stage works through m micro-batches, the slowest stage sets the pace, the others' passes fill and drain the pipeline,
and what communication is not hidden behind computation is added.
"""

from dataclasses import dataclass, fields

import numpy as np

from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.units import Numeric
from course_lib.parallel.planner.bubbles import idle_seconds
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.constants import (
    ALL_TO_ALL_PROCESSORS,
    ASYNC_TP_HIDES,
    HOST_ADAM,
    HOST_BACKWARD,
    MIXTURE_LAUNCH,
)
from course_lib.parallel.planner.job import Job
from course_lib.parallel.planner.layers import Pass, attention, elementwise, head, matmuls, norms_seconds
from course_lib.parallel.planner.traffic import (
    context_seconds,
    data_seconds,
    expert_seconds,
    message_seconds,
    rank_params,
    tensor_seconds,
)

ADAM_BYTES = 40.0  # read and written per parameter: gradient, master copy, two moments, new weight
Talk = tuple[Numeric, ...]  # seconds of communication, forward and backward


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Seconds of one step on the slowest stage, by cause. Communication counts only where nothing hides it."""

    matmul: Numeric
    attention: Numeric
    other: Numeric  # elementwise kernels and the loss
    recompute: Numeric
    launch: Numeric  # the device waits for the processor to launch kernels
    tp: Numeric
    cp: Numeric
    ep: Numeric
    pp: Numeric
    dp: Numeric
    bubble: Numeric
    optimizer: Numeric  # adding up gradients of micro-batches, and the update

    @property
    def seconds(self) -> Numeric:
        """The whole step."""
        return sum(getattr(self, each.name) for each in fields(self))

    @property
    def parts(self) -> dict[str, Numeric]:
        """Seconds by cause, in order."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Seconds of one layer for one micro-batch, by cause, forward and backward together, and the passes' lengths."""

    parts: dict[str, Numeric]
    forward: Numeric
    backward: Numeric
    weights: Numeric  # the weight gradients' part of `backward`
    busy: Numeric  # forward and backward without communication


def micro_batch(job: Job, layout: Layout) -> Numeric:
    """Sequences of one micro-batch: global batch = micro-batch x micro-batches x data ranks. Context ranks share a
    sequence."""
    return job.sequences / (layout.dp * layout.microbatches)


def layer(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Layer:
    """One layer with its communication, its recomputation and the processor's launches."""
    product, scores, rest = (each(job, cluster, layout, batch) for each in (matmuls, attention, elementwise))
    hidden = ASYNC_TP_HIDES if job.software.overlap_tp else 0.0
    tensor = tuple((1 - hidden) * talk for talk in tensor_seconds(job, cluster, layout, batch))
    keys, latency = context_seconds(job, cluster, layout, batch)
    context = tuple(latency * n + part for n, part in zip((1, 2), _behind(scores, (keys, 2 * keys)), strict=True))
    expert = _experts_exposed(job, cluster, layout, batch, (product, scores, rest))
    norms = norms_seconds(job, cluster, layout, batch)
    again, talk_again = _recomputed(job, norms, product, scores, rest, tensor, expert)
    talk = (tensor[0] + context[0] + expert[0], tensor[1] + context[1] + expert[1] + talk_again)
    device = (
        product.forward + scores.forward + rest.forward + talk[0],
        product.backward + scores.backward + rest.backward + again + talk[1],
    )
    host = 0.0 if job.software.graphs else job.software.launch
    launches = host, host * (HOST_BACKWARD + (job.recompute == "full"))
    routed = 0.0 if job.software.graphs else MIXTURE_LAUNCH * job.shape.expert_layers / job.shape.layers
    waits = np.maximum(routed - expert[0], 0.0)
    both = np.add if job.software.blocking else _both
    forward, backward = (both(each, host) + waits for each, host in zip(device, launches, strict=True))
    repeated = {"none": 0.0, "selective": 0.5 * (job.software.selective != ("core",)), "full": 1.0}[job.recompute]
    parts = {
        "matmul": product.forward + product.backward,
        "attention": scores.forward + scores.backward,
        "other": rest.forward + rest.backward,
        "recompute": again,
        "launch": forward + backward - device[0] - device[1],
        "tp": (1 + repeated) * tensor[0] + tensor[1],
        "cp": context[0] + context[1],
        "ep": (1 + np.ceil(repeated)) * expert[0] + expert[1],
    }
    busy = forward + backward - talk[0] - talk[1]
    return Layer(parts=parts, forward=forward, backward=backward, weights=product.weights, busy=busy)


def _behind(work: Pass, talk: tuple[Numeric, Numeric]) -> tuple[Numeric, Numeric]:
    """What is left of forward and backward communication behind the work that it overlaps with: keys travel while
    scores are computed."""
    return np.maximum(talk[0] - work.forward, 0.0), np.maximum(talk[1] - work.backward, 0.0)


def _recomputed(
    job: Job, norms: Numeric, product: Pass, scores: Pass, rest: Pass, tensor: Talk, expert: Talk
) -> tuple[Numeric, Numeric]:
    """Seconds of computation, and of communication, that the backward pass repeats from the forward pass."""
    if job.recompute == "none":
        return 0.0, 0.0
    if job.recompute == "full":
        return product.forward + scores.forward + rest.forward, tensor[0] + expert[0]
    again: Numeric = 0.0
    talk: Numeric = 0.0
    what = job.software.selective
    if "products" in what:
        again, talk = product.forward / 2 + rest.forward, tensor[0] / 2  # scattered results are saved, gathered not
    if "core" in what and job.software.attention == "unfused":  # a fused backward pass computes the scores anyway
        again = again + scores.forward
    if "norm" in what:
        again = again + norms
    if "mlp" in what:  # with half of the tensor ranks' messages, and all of the experts'
        again, talk = again + product.mlp + rest.mlp, tensor[0] / 2 + expert[0]
    return again, talk


def _experts_exposed(job: Job, cluster: Cluster, layout: Layout, batch: Numeric, work: tuple[Pass, ...]) -> Talk:
    """Seconds that the experts' all-to-alls add to a layer, forward and backward.

    With `overlap_ep` they travel while another micro-batch computes, and slow that down by the processors that carry
    them; what is longer than the computation is exposed, and so is all of it where there is one micro-batch.
    """
    sent = expert_seconds(job, cluster, layout, batch)
    if not job.software.overlap_ep:
        return sent
    hides = np.greater(layout.microbatches, 1)
    slowed = ALL_TO_ALL_PROCESSORS / cluster.processors
    room = sum(each.forward for each in work), sum(each.backward for each in work)
    return tuple(
        np.where(hides, np.maximum(talk - each, slowed * talk), talk) for talk, each in zip(sent, room, strict=True)
    )


def _both(device: Numeric, host: float) -> Numeric:
    """Seconds of work that needs device and processor at once: the cube root of both cubes' sum, little more than the
    longer one.

    Some kernels of a layer wait for their launch and others do not, so where the two are alike the pass is longer than
    either.
    """
    return np.cbrt(device * device * device + host * host * host)


def step_time(job: Job, cluster: Cluster, layout: Layout) -> Step:
    """Seconds of one step by cause. Any number of the job or the layout may be an array."""
    one, m = job.shape, layout.microbatches
    batch = micro_batch(job, layout)
    each = layer(job, cluster, layout, batch)
    layers = one.layers / layout.pp
    projection, loss = head(job, cluster, layout, batch)
    looked_up = 12 * batch * job.seq / layout.cp * one.hidden / cluster.memory_rate
    ends = projection + loss
    per_layer = each.forward + each.backward
    alone = np.where(np.equal(layout.pp, 1), looked_up, 0.0)
    held, has_head = _slowest(one.layers, layout.pp, per_layer, ends)
    slowest = held * per_layer + has_head * ends + alone
    whole = one.layers * per_layer + ends + looked_up  # one micro-batch through all stages
    bubble = idle_seconds(layout, held * each.forward, held * each.backward, held * each.weights, whole - slowest)
    parts = {name: m * held * part for name, part in each.parts.items()}
    parts["matmul"] = parts["matmul"] + m * has_head * projection
    parts["other"] = parts["other"] + m * (has_head * loss + alone)
    return Step(
        **parts,
        pp=_pipeline(job, cluster, layout, batch),
        dp=_data(job, cluster, layout, each, layers),
        bubble=bubble,
        optimizer=_update(job, cluster, layout),
    )


def _slowest(layers: Numeric, stages: Numeric, per_layer: Numeric, ends: Numeric) -> tuple[Numeric, Numeric]:
    """Layers on the slowest stage, and 1 if it has the head. Where layers do not divide, the last stage has one less
    than the others."""
    share = layers / stages
    fewer = np.floor(share)
    middle = (share != fewer) & (per_layer > ends)
    return np.where(middle, fewer + 1, np.where(share == fewer, share, fewer)), np.where(middle, 0.0, 1.0)


def _pipeline(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Numeric:
    """Messages between stages: two a micro-batch and chunk, and one each way along the pipeline to fill and drain
    it."""
    message = message_seconds(job, cluster, layout, batch)
    hidden = job.software.overlap_pp & np.greater(layout.virtual, 1)  # one chunk's messages, behind another chunk
    steady = np.where(hidden, 0, 2 * layout.microbatches * layout.virtual)
    return (steady + 2 * (layout.pp - 1)) * message


def _data(job: Job, cluster: Cluster, layout: Layout, each: Layer, layers: Numeric) -> Numeric:
    """Exposed synchronization of data ranks.

    Under ZeRO-3 each micro-batch gathers the weights forward and backward and scatters the gradients while other layers
    compute; only the first layer's gather has nothing to hide behind (Zhao et al. 2023). Below, gradients are summed
    once a step: hidden behind the last backward pass, if at all.
    """
    sync = data_seconds(job, cluster, layout)
    work = layers * each.busy
    overlap = job.software.overlap_dp
    sharded = 2 * sync.gather + sync.scatter
    sharded = layout.microbatches * (np.maximum(sharded - work, 0.0) if overlap else sharded) + sync.gather / layers
    once = np.where(np.equal(layout.zero, 0), 2 * sync.scatter, sync.scatter + sync.gather)
    once = np.maximum(once - work, once / layers) if overlap else once
    return np.where(layout.dp * layout.cp > 1, np.where(np.equal(layout.zero, 3), sharded, once), 0.0)


def _update(job: Job, cluster: Cluster, layout: Layout) -> Numeric:
    """Gradients added up after each micro-batch, and Adam on the rank's share of the state, by the server's processors
    where that is offloaded."""
    dense, experts = rank_params(job, layout)
    ranks = layout.dp * layout.cp / layout.replicas
    adding = (
        0.0
        if job.software.fused_adding
        else (2 * job.software.grad_bytes + 2) * (dense + experts) * layout.microbatches * (layout.microbatches > 1)
    )
    adding = np.where(np.equal(layout.zero, 3), adding / ranks, adding)
    share = np.where(
        np.equal(layout.zero, 0), dense + experts, dense / ranks + experts / np.maximum(ranks / layout.ep, 1)
    )
    updated = share / HOST_ADAM if job.offload else ADAM_BYTES * share / cluster.memory_rate
    return adding / cluster.memory_rate + updated
