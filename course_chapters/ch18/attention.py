"""Attention tile by tile through a small fast memory, forward and backward, and what crosses to slow memory.

One head: q, k, v and the output are (tokens, width). The kernels follow FlashAttention in the order of loops of its
second version: queries outside in the forward pass, keys outside in the backward pass. Dao et al., "FlashAttention"
(2022), algorithms 0, 1 and 4; Dao, "FlashAttention-2" (2023), algorithms 1 and 2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_chapters.ch18.fast_memory import FastMemory
from course_lib.parallel.context.log_sum_exp_merge import wide

# --- without tiles: every intermediate result goes through slow memory


def unfused(memory: FastMemory, causal: bool = False) -> None:
    """Three kernels, each of which loads its whole inputs: scores, softmax, product with v. Fills "weights" and
    "out"."""
    everything = slice(None)
    scale = memory.shape("q")[1] ** -0.5
    scores = memory.load("q", everything) @ memory.load("k", everything).T * scale
    if causal:
        scores.masked_fill_(_hidden(slice(0, scores.shape[0]), slice(0, scores.shape[1])), -torch.inf)
    memory.store("scores", scores, everything)
    memory.store("weights", memory.load("scores", everything).softmax(-1), everything)
    memory.store("out", memory.load("weights", everything) @ memory.load("v", everything), everything)


def unfused_backward(memory: FastMemory) -> None:
    """Gradients from the stored weights, a kernel for each product: fills "dq", "dk" and "dv"."""
    everything = slice(None)
    scale = memory.shape("q")[1] ** -0.5
    memory.store("dv", memory.load("weights", everything).T @ memory.load("grad", everything), everything)
    memory.store("dweights", memory.load("grad", everything) @ memory.load("v", everything).T, everything)
    weights, grad = (memory.load(name, everything) for name in ("weights", "dweights"))
    memory.store("dscores", weights * (grad - (weights * grad).sum(-1, keepdim=True)) * scale, everything)
    memory.store("dq", memory.load("dscores", everything) @ memory.load("k", everything), everything)
    memory.store("dk", memory.load("dscores", everything).T @ memory.load("q", everything), everything)


# --- with tiles


def forward(memory: FastMemory, rows: int, columns: int, causal: bool = False) -> None:
    """Attention in tiles of `rows` queries and `columns` keys: fills "out" and "log_sum" (tokens, 1).

    The scores never leave fast memory. Each query has the largest score so far, the sum of exp(score − largest) and
    the output so far; when a larger score arrives, sum and output shrink by exp(old largest − new largest).
    """
    width = memory.shape("q")[1]
    for queries in memory.tiles("q", rows):
        q = memory.load("q", queries).to(wide(memory.slow("q")[0].dtype)).mul_(width**-0.5)
        out, total = torch.zeros_like(q), q.new_zeros(len(q), 1)
        largest = q.new_full((len(q), 1), -torch.inf)
        for keys in memory.tiles("k", columns):
            if causal and keys.start >= queries.stop:
                break  # no query of this tile sees these keys or later ones
            k = memory.load("k", keys)
            scores = q @ k.to(q.dtype).T
            del k
            _mask(scores, queries, keys, causal)
            before = largest
            largest = torch.maximum(before, scores.amax(1, keepdim=True))
            shrink = before.sub_(largest).exp_()
            scores.sub_(largest).exp_()
            total.mul_(shrink).add_(scores.sum(1, keepdim=True))
            v = memory.load("v", keys)
            out.mul_(shrink).addmm_(scores, v.to(q.dtype))
            del v, scores, before, shrink
        memory.store("out", out.div_(total), queries)
        memory.store("log_sum", largest.add_(total.log_()), queries)
        del q, out, total, largest


def backward(memory: FastMemory, rows: int, columns: int, causal: bool = False) -> None:
    """The gradients from q, k, v, out, log_sum and "grad" alone: fills "delta", "dq", "dk" and "dv".

    exp(score − log_sum) is the weight of the forward pass, computed again tile by tile. A query tile's dq gets a share
    from every tile of keys, so it is loaded and stored for each; "dq" and "delta" are kept in fp32 at least.
    """
    scale, kind = memory.shape("q")[1] ** -0.5, memory.slow("delta")[0].dtype
    for queries in memory.tiles("q", rows):
        product = memory.load("grad", queries).to(kind) * memory.load("out", queries)
        memory.store("delta", product.sum(1, keepdim=True), queries)
        del product
    for keys in memory.tiles("k", columns):
        k, v = (memory.load(name, keys).to(kind) for name in ("k", "v"))
        dk, dv = torch.zeros_like(k), torch.zeros_like(v)
        for queries in memory.tiles("q", rows):
            if causal and queries.stop <= keys.start:
                continue  # none of these queries sees a key of the tile
            q, grad = (memory.load(name, queries).to(kind) for name in ("q", "grad"))
            weights = (q @ k.T).mul_(scale)
            _mask(weights, queries, keys, causal)
            weights.sub_(memory.load("log_sum", queries)).exp_()
            dv.addmm_(weights.T, grad)
            dscores = grad @ v.T
            del grad
            dscores.sub_(memory.load("delta", queries)).mul_(weights).mul_(scale)
            del weights
            dk.addmm_(dscores.T, q)
            dq = memory.load("dq", queries) if keys.start else torch.zeros_like(q)
            memory.store("dq", dq.addmm_(dscores, k), queries)
            del q, dq, dscores
        memory.store("dk", dk, keys)
        memory.store("dv", dv, keys)
        del k, v, dk, dv


def _hidden(queries: slice, keys: slice) -> Tensor:
    """Which (query, key) pairs causal attention hides."""
    return torch.arange(queries.start, queries.stop)[:, None] < torch.arange(keys.start, keys.stop)


def _mask(scores: Tensor, queries: slice, keys: slice, causal: bool) -> None:
    """−inf where a key lies after its query; tiles below the diagonal need no mask."""
    if causal and keys.stop - 1 > queries.start:
        scores.masked_fill_(_hidden(queries, keys), -torch.inf)


# --- running them


def slow_memory(q: Tensor, k: Tensor, v: Tensor, capacity: int | None = None) -> FastMemory:
    """q, k and v (tokens, width) in slow memory, with room for all results of both passes."""
    if q.shape != k.shape or k.shape != v.shape or q.ndim != 2:
        raise ValueError(f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}: all must be (tokens, width).")
    tokens = len(q)
    kind = wide(q.dtype)
    square = {name: q.new_empty(tokens, tokens) for name in ("scores", "weights", "dscores", "dweights")}
    column = {name: q.new_empty(tokens, 1, dtype=kind) for name in ("log_sum", "delta")}
    like = {name: torch.empty_like(q) for name in ("out", "dk", "dv", "grad")}
    return FastMemory(capacity, q=q, k=k, v=v, dq=torch.empty_like(q, dtype=kind), **like, **column, **square)


# --- what crosses, by formula


def forward_traffic(tokens: int, width: int, rows: int, columns: int, itemsize: int, causal: bool = False) -> int:
    """Bytes between slow and fast memory in `forward`; log_sum takes 4 bytes a query, or 8 in fp64."""
    own = 2 * tokens * width * itemsize + tokens * max(4, itemsize)
    return own + 2 * sum(_keys_seen(tokens, rows, columns, causal)) * width * itemsize


def backward_traffic(tokens: int, width: int, rows: int, columns: int, itemsize: int, causal: bool = False) -> int:
    """Bytes between slow and fast memory in `backward`."""
    kept = max(4, itemsize)  # bytes of a number in delta, log_sum and dq
    prepare = 2 * tokens * width * itemsize + tokens * kept
    own = 4 * tokens * width * itemsize  # k, v, dk, dv
    visits = sum(_queries_seen(tokens, rows, columns, causal))
    return prepare + own + visits * (2 * width * itemsize + 2 * kept + 2 * width * kept) - tokens * width * kept


def unfused_traffic(tokens: int, width: int, itemsize: int) -> tuple[int, int]:
    """Bytes of `unfused` and `unfused_backward`: four and seven passes over the tokens × tokens matrices."""
    thin, square = tokens * width * itemsize, tokens * tokens * itemsize
    return 4 * thin + 4 * square, 8 * thin + 7 * square


def _keys_seen(tokens: int, rows: int, columns: int, causal: bool) -> list[int]:
    """For each tile of queries, how many keys it loads."""
    stops = [min(start + rows, tokens) for start in range(0, tokens, rows)]
    return [min(math.ceil(stop / columns) * columns, tokens) if causal else tokens for stop in stops]


def _queries_seen(tokens: int, rows: int, columns: int, causal: bool) -> list[int]:
    """For each tile of keys, how many queries it loads."""
    starts = range(0, tokens, columns)
    return [tokens - start // rows * rows if causal else tokens for start in starts]
