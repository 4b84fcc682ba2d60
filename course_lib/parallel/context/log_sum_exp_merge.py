"""Attention over some of the keys, and how two such results become one.

The output over all keys is Σ exp(s_j)·v_j / Σ exp(s_j). With each part's output and the logarithm of its Σ exp(s_j),
the whole follows exactly: outputs are averaged with weights exp(log_sum). Milakov & Gimelshein, "Online normalizer
calculation for softmax" (2018); Dao et al., "FlashAttention" (2022). A query that sees no key of a part has output 0
and log_sum −inf there.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

Part = tuple[Tensor, Tensor]  # output (…, heads, queries, head_dim), log_sum (…, heads, queries)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which scores, sums and outputs are kept while parts are merged: fp32 at least."""
    return torch.promote_types(dtype, torch.float32)


def grouped(q: Tensor, kv_heads: int) -> Tensor:
    """Queries (…, heads, tokens, head_dim) as (…, kv_heads, heads per KV head, tokens, head_dim)."""
    if q.shape[-3] % kv_heads:
        fits = [n for n in range(1, q.shape[-3] + 1) if q.shape[-3] % n == 0]
        raise ValueError(f"{kv_heads} KV heads do not divide {q.shape[-3]} query heads; choose from {fits}.")
    return q.unflatten(-3, (kv_heads, q.shape[-3] // kv_heads))


def _scores(q: Tensor, k: Tensor, visible: Tensor | None) -> Tensor:
    """Scaled scores (…, kv_heads, group, queries, keys) in the wide dtype; −inf where not visible."""
    scale = q.shape[-1] ** -0.5
    scores = (grouped(q, k.shape[-3]) * scale).to(wide(q.dtype)) @ k.unsqueeze(-3).transpose(-2, -1).to(wide(k.dtype))
    return scores if visible is None else scores.masked_fill(~visible, -torch.inf)


def _finite(log_sum: Tensor) -> Tensor:
    """`log_sum` with 0 for −inf, so that exp(−inf − log_sum) is 0 for a query without keys, and not exp(NaN)."""
    return log_sum.masked_fill(log_sum == -torch.inf, 0.0)


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Part:
    """Attention of the queries to these keys alone: output and log_sum, in fp32 at least.

    q (…, heads, queries, head_dim); k, v (…, kv_heads, keys, head_dim); `visible` (queries, keys), bool, or None for
    all.
    """
    if not k.shape[-2]:
        return q.new_zeros(q.shape, dtype=wide(q.dtype)), q.new_full(q.shape[:-1], -torch.inf, dtype=wide(q.dtype))
    scores = _scores(q, k, visible)
    log_sum = scores.logsumexp(-1, keepdim=True)
    weights = (scores - _finite(log_sum)).exp()
    out = weights @ v.unsqueeze(-3).to(weights.dtype)
    return out.flatten(-4, -3), log_sum.squeeze(-1).flatten(-3, -2)


def merge(parts: Iterable[Part]) -> Part:
    """The attention over all keys from the attention over parts of them, in any order; at least one part."""
    parts = list(parts)
    if not parts:
        raise ValueError("merge got no part; give at least one pair of output and log_sum.")
    log_sums = torch.stack([log_sum for _, log_sum in parts])
    log_sum = log_sums.logsumexp(0)
    weights = (log_sums - _finite(log_sum)).exp()
    return sum(out * weight[..., None] for (out, _), weight in zip(parts, weights, strict=True)), log_sum


def nothing_yet(q: Tensor) -> Part:
    """The part of no key at all, from which merging starts."""
    return q.new_zeros(q.shape, dtype=wide(q.dtype)), q.new_full(q.shape[:-1], -torch.inf, dtype=wide(q.dtype))


def attend_backward(
    q: Tensor, k: Tensor, v: Tensor, log_sum: Tensor, grad_out: Tensor, delta: Tensor, visible: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The share of dq, and dk and dv, that these keys contribute, in fp32 at least.

    `log_sum` is that over *all* keys, so exp(score − log_sum) are the final weights; `delta` is Σ grad_out·out over
    head_dim, (…, heads, queries). Nothing else of the forward pass is needed. Dao et al. (2022), algorithm 4.
    """
    group = (k.shape[-3], q.shape[-3] // k.shape[-3])
    weights = (_scores(q, k, visible) - _finite(log_sum).unflatten(-2, group)[..., None]).exp()
    grad = grouped(grad_out.to(weights.dtype), group[0])
    to_weights = grad @ v.unsqueeze(-3).transpose(-2, -1).to(weights.dtype)
    to_scores = weights * (to_weights - delta.unflatten(-2, group)[..., None]) * q.shape[-1] ** -0.5
    dq = to_scores @ k.unsqueeze(-3).to(weights.dtype)
    dk = to_scores.transpose(-2, -1) @ grouped(q, group[0]).to(weights.dtype)
    dv = weights.transpose(-2, -1) @ grad
    return dq.flatten(-4, -3), dk.sum(-3), dv.sum(-3)
