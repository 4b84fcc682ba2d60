"""Seconds of one layer for one micro-batch on one rank, without communication: products, attention, other kernels.

Bytes of elementwise kernels are counted operation by operation; b s h is one value of the residual stream for each
token.
"""

from dataclasses import dataclass

import numpy as np

from course_lib.estimate.memory.layout import Layout
from course_lib.estimate.units import Numeric
from course_lib.parallel.planner.cluster import Cluster
from course_lib.parallel.planner.constants import (
    DROPOUT_DRAWS,
    EAGER,
    FLASH_BACKWARD,
    KERNEL_SECONDS,
    NATIVE_ATTENTION,
    TILE,
)
from course_lib.parallel.planner.job import Job
from course_lib.parallel.planner.products import aligned_share, busy_waves, layer_seconds
from course_lib.parallel.planner.traffic import WIDTH, tensor_passes


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds of the forward pass and of the backward pass."""

    forward: Numeric
    backward: Numeric  # of inputs and weights together
    weights: Numeric = 0.0  # the weights' part of `backward`
    mlp: Numeric = 0.0  # the MLP's part of `forward`


def layer_rate(job: Job, cluster: Cluster) -> float:
    """FLOP/s of the layers' large products."""
    rate = {"bf16": cluster.matmul, "fp8": cluster.matmul_fp8, "fp4": cluster.matmul_fp4}[job.dtype]
    if not rate:
        raise ValueError(f"{cluster.device} has no measured {job.dtype} rate; use dtype='bf16'.")
    return rate


def matmuls(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Pass:
    """The products of a layer: queries, keys and values in one, attention's output, and the MLP's two or three
    matrices.

    Y = X W runs forward; dX = dY Wᵀ and dW = Xᵀ dY run backward.
    """
    one, tp = job.shape, layout.tp
    tokens = batch * job.seq / layout.cp
    query, kv = one.query_width / tp, one.kv_width_on(tp)
    out = one.value_width / tp
    inner = _mlp(job, layout, tokens)
    sites = [*inner, (tokens, out, one.hidden, out, 1)]
    if one.latent:  # down to the compressed widths on every rank, and up to this rank's heads
        entry = one.query_latent or one.hidden
        down = one.query_latent + one.latent + one.rotary_dim
        sites += [(tokens, one.hidden, down, one.hidden, 1), (tokens, entry, query, query, 1)]
        sites.append((tokens, one.latent, one.heads / tp * one.plain_dim + out, out, 1))
    else:
        sites.append((tokens, one.hidden, query + 2 * kv, query, 1))
    width, gradient = {"bf16": 2.0, "fp8": 1.0, "fp4": 0.5}[job.dtype], gradient_bytes(job, layout)
    forward: Numeric = 0.0
    inputs: Numeric = 0.0
    weights: Numeric = 0.0
    mlp: Numeric = 0.0
    for place, (rows, k, n, narrow, times) in enumerate(sites):
        rate = layer_rate(job, cluster) * aligned_share(narrow)
        out, back, update = layer_seconds(rows, k, n, cluster, rate, width, gradient)
        forward, inputs, weights = forward + times * out, inputs + times * back, weights + times * update
        mlp = forward if place < len(inner) else mlp
    return Pass(forward, inputs + weights, weights, mlp)


def gradient_bytes(job: Job, layout: Layout) -> Numeric:
    """Bytes that a product moves for each weight gradient: it reads and writes the sum that it adds to, or it writes 16
    bits, which another kernel adds up or, under ZeRO-3, are reduced first."""
    if not job.software.fused_adding:
        return WIDTH
    return np.where(np.equal(layout.zero, 3), WIDTH, 2 * job.software.grad_bytes)


def _mlp(job: Job, layout: Layout, tokens: Numeric) -> list[tuple[Numeric, Numeric, Numeric, Numeric, Numeric]]:
    """The MLP's products as (rows, k, n, the narrow width, how many); a mixture's layers are averaged with its dense
    ones."""
    one, tp = job.shape, layout.tp
    up = 2 if one.gated else 1
    plain = one.ffn / tp
    if not np.any(one.experts):
        return [(tokens, one.hidden, up * plain, plain, 1), (tokens, plain, one.hidden, plain, 1)]
    mixed = one.expert_layers / one.layers
    wide, rows = one.expert_ffn / tp, tokens * one.top_k * layout.ep / one.experts
    many = mixed * one.experts / layout.ep
    sites = [(rows, one.hidden, up * wide, wide, many), (rows, wide, one.hidden, wide, many)]
    if one.shared_ffn:
        shared = one.shared_ffn / tp
        sites += [(tokens, one.hidden, up * shared, shared, mixed), (tokens, shared, one.hidden, shared, mixed)]
    if np.any(np.less(mixed, 1)):
        sites += [(tokens, one.hidden, up * plain, plain, 1 - mixed), (tokens, plain, one.hidden, plain, 1 - mixed)]
    return sites


def attention(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Pass:
    """Scores, softmax and weighted sum.

    Fused: 4 s² d FLOP a head forward and 10 backward, half of them if causal (Dao 2023), less in layers with a
    window; a tile of queries on each processor at a time. Context ranks compute as many parts as they are, and merge
    each into the sum (8 bytes forward, 12 backward). Dropout draws a number for each score, and again backward.
    Unfused: all s² scores pass through memory in 13 bytes forward (write, softmax, dropout, read) and 20 backward, each
    product at the rate of its head width.
    """
    one, software = job.shape, job.software
    scores = batch * one.heads / layout.tp * job.seq * job.seq / layout.cp
    flops = 2.0 * scores * (one.key_dim + one.value_width / one.heads) * one.attended(job.seq)
    if software.attention != "unfused":
        seen = flops * (0.5 if job.causal else 1.0)
        native = software.attention == "native" and cluster.matmul_fp8  # older chips have flash kernels alone
        seen = seen / (NATIVE_ATTENTION if native else 1.0)
        tiles = batch * one.heads / layout.tp * np.ceil(job.seq / layout.cp / TILE)
        forward: Numeric = seen / cluster.attention * busy_waves(tiles, cluster) * cluster.processors / tiles
        merged = batch * job.seq * (1 - 1 / layout.cp) * one.value_width / layout.tp / cluster.memory_rate
        draws = (
            scores * (0.5 if job.causal else 1.0) / (cluster.processors * DROPOUT_DRAWS) if software.dropout else 0.0
        )
        same = layout.cp * KERNEL_SECONDS + draws
        return Pass(forward + 8 * merged + same, 2.5 * forward / FLASH_BACKWARD + 12 * merged + same)
    rate = cluster.matmul * aligned_share(one.head_dim)
    forward = flops / rate + 13 * scores / cluster.memory_rate + 4 * KERNEL_SECONDS
    return Pass(forward, 2 * flops / rate + 20 * scores / cluster.memory_rate + 8 * KERNEL_SECONDS)


def elementwise(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Pass:
    """Norms, residuals, dropout, the nonlinearity and rotary positions, by the bytes that they read and write.

    In b s h: a norm 4 forward and 8 backward, a residual with bias 6 and 6 (dropout 1 and 5 more), two of each in a
    layer. In b s f: the nonlinearity 4 and 6, a gated one 6 and 10. A mixture sorts top_k copies of the tokens by rank
    and by expert, and back: 16 and 16 for each. In 8 bits each input of a product that no norm or nonlinearity
    writes, and each gradient, is read and written in both orders: 4. In 4 bits the scale of
    a whole tensor must be known first, so that every input is read once more and cast by a kernel of its own: 5 (NVIDIA
    2025, arXiv 2509.25149). Where the batch comes before the sequence, each tensor that tensor ranks gather or scatter
    along the sequence is read and written once more, whole: 4 (PyTorch's functional collectives split it into the
    ranks' parts and join them along the other dimension).
    """
    one, software = job.shape, job.software
    tokens = batch * job.seq / layout.cp
    residual, inner = tokens * one.hidden / layout.sp_ways, tokens * _inner(job, layout)
    drop = 1 if software.dropout else 0
    gate = (6, 10) if one.gated else (4, 6)
    times = EAGER if software.kernels == "eager" else 1.0
    turned = 4 * tokens * (one.query_width / layout.tp + one.kv_width_on(layout.tp))
    sorted_ = residual * one.top_k * one.expert_layers / one.layers if np.any(one.experts) else 0.0
    cast: tuple[Numeric, Numeric] = (0, 0)
    if job.dtype != "bf16":
        wide, late = tokens * (one.query_width / layout.tp + 2 * one.kv_width_on(layout.tp)), not software.fused_casts
        four = job.dtype == "fp4"
        each, late, normed = (5, True, 2 * residual) if four else (4, late, 0.0)
        cast = (
            each * (tokens * one.value_width / layout.tp + normed + late * inner + sorted_),
            each * (2 * residual + wide + late * (2 if one.gated else 1) * inner + sorted_),
        )
    once = 4 * tokens * one.hidden * (np.greater(layout.sp_ways, 1) & (not software.sequence_first))
    copied = [once * passes for passes in tensor_passes(job, layout)]
    moved = turned + 16 * sorted_
    forward = times * ((20 + 2 * drop) * residual + gate[0] * inner) + moved + cast[0] + copied[0]
    backward = times * ((28 + 10 * drop) * residual + gate[1] * inner) + moved + cast[1] + copied[1]
    mlp = times * gate[0] * inner + 16 * sorted_
    return Pass(forward / cluster.memory_rate, backward / cluster.memory_rate, mlp=mlp / cluster.memory_rate)


def norms_seconds(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> Numeric:
    """Seconds of a layer's two norms forward: each reads and writes b s h."""
    tokens = batch * job.seq / layout.cp
    return 2 * 4 * tokens * job.shape.hidden / layout.sp_ways / cluster.memory_rate


def _inner(job: Job, layout: Layout) -> Numeric:
    """Numbers of a token inside the MLP on one rank, averaged over the layers."""
    one = job.shape
    if not np.any(one.experts):
        return one.ffn / layout.tp
    mixed = one.expert_layers / one.layers
    return (mixed * (one.top_k * one.expert_ffn + one.shared_ffn) + (1 - mixed) * one.ffn) / layout.tp


def head(job: Job, cluster: Cluster, layout: Layout, batch: Numeric) -> tuple[Numeric, Numeric]:
    """Seconds of the output projection's three products, and of the loss: 30 bytes a logit, forward and backward
    together."""
    one, tokens = job.shape, batch * job.seq / layout.cp
    wide = one.vocab / layout.tp
    rate = cluster.matmul
    products = sum(layer_seconds(tokens, one.hidden, wide, cluster, rate, gradient=gradient_bytes(job, layout)))
    return products, 30 * tokens * wide / cluster.memory_rate
