"""Ulysses: before attention, an all-to-all exchanges tokens for heads; after it, another exchanges them back.

Outside attention a rank has all heads of its tokens; inside, all tokens of its heads, so that any attention kernel
serves. There cannot be more ranks than query heads. Jacobs et al., "DeepSpeed Ulysses" (2023).
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm
from course_lib.parallel.context.attention_blocks import check_shapes, local_attention
from course_lib.parallel.context.costs import ulysses_fits
from course_lib.parallel.context.layout import CAUSAL, Mask, Positions


def ulysses_attention(
    comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Positions, mask: Mask = CAUSAL
) -> tuple[Tensor, None]:
    """As `ring_attention`, by all-to-all; without log_sum. ValueError where ranks and heads do not fit."""
    check_shapes(comm, q, k, v, positions)
    check_heads(q.shape[-3], k.shape[-3], comm.size)
    lengths, order = [len(own) for own in positions], torch.cat(list(positions))
    q, k, v = (to_heads(comm, x, lengths) for x in (q, k, v))
    out, _ = local_attention(comm, q, k, v, order, order, mask)
    return to_tokens(comm, out, lengths), None


def check_heads(heads: int, kv_heads: int, ranks: int) -> None:
    """ValueError naming the numbers of ranks that fit, if `ranks` does not."""
    if ranks not in (fits := ulysses_fits(heads, kv_heads)):
        raise ValueError(
            f"Ulysses cannot divide {heads} query heads and {kv_heads} KV heads among {ranks} ranks; {fits} would fit. "
            "For more ranks than heads use a ring or an all-gather."
        )


def to_heads(comm: Comm, x: Tensor, lengths: Sequence[int]) -> Tensor:
    """From all heads of this rank's tokens to all tokens of this rank's heads.

    x (…, heads, own tokens, head_dim) -> (…, heads / ranks, all tokens in the order of ranks, head_dim);
    `lengths[rank]` is each rank's number of tokens. With fewer heads than ranks, rank r gets head r·heads // ranks, and
    several ranks the same.
    """
    _check(comm, x.shape[-3], x.shape[-2], lengths)
    return _ToHeads.apply(x, comm, tuple(lengths))


def to_tokens(comm: Comm, x: Tensor, lengths: Sequence[int]) -> Tensor:
    """The inverse of `to_heads`, where every head was on one rank: (…, own heads, all tokens, head_dim) -> (…, heads,
    own tokens, head_dim)."""
    return _ToTokens.apply(x, comm, tuple(lengths))


class _ToHeads(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, lengths: tuple[int, ...]) -> Tensor:
        ctx.comm, ctx.lengths, ctx.heads = comm, lengths, x.shape[-3]
        return _to_heads(comm, x, lengths)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        whole = _to_tokens(ctx.comm, grad, ctx.lengths)
        return whole.unflatten(-3, (ctx.heads, -1)).sum(-3), None, None  # several ranks may have used one head


class _ToTokens(Function):
    @staticmethod
    def forward(ctx, x: Tensor, comm: Comm, lengths: tuple[int, ...]) -> Tensor:
        ctx.comm, ctx.lengths = comm, lengths
        return _to_tokens(comm, x, lengths)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _to_heads(ctx.comm, grad, ctx.lengths), None, None


def _to_heads(comm: Comm, x: Tensor, lengths: Sequence[int]) -> Tensor:
    ranks, heads = comm.size, x.shape[-3]
    each = max(heads // ranks, 1)
    firsts = [rank * heads // ranks for rank in range(ranks)]
    sent = [x[..., first : first + each, :, :] for first in firsts]
    shapes = [(*x.shape[:-3], each, length, x.shape[-1]) for length in lengths]
    return torch.cat(exchange(comm, sent, shapes), -2)


def _to_tokens(comm: Comm, x: Tensor, lengths: Sequence[int]) -> Tensor:
    shape = (*x.shape[:-2], lengths[comm.rank], x.shape[-1])
    return torch.cat(exchange(comm, x.split(list(lengths), -2), [shape] * comm.size), -3)


def exchange(comm: Comm, sent: Sequence[Tensor], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """Tensor i of `sent` to rank i, and from rank i a tensor of `shapes[i]`: one all-to-all of uneven parts."""
    flat = torch.cat([part.reshape(-1) for part in sent])
    counts = [torch.Size(shape).numel() for shape in shapes]
    arrived = flat.new_empty(sum(counts))
    comm.all_to_all_single(arrived, flat, counts, [part.numel() for part in sent])
    return [part.view(shape) for part, shape in zip(arrived.split(counts), shapes, strict=True)]


def _check(comm: Comm, heads: int, tokens: int, lengths: Sequence[int]) -> None:
    if heads % comm.size and comm.size % heads:
        fits = [n for n in range(1, max(heads, comm.size) + 1) if heads % n == 0 or n % heads == 0]
        raise ValueError(f"{heads} heads do not divide among {comm.size} ranks; {fits} ranks would fit.")
    if len(lengths) != comm.size or lengths[comm.rank] != tokens:
        raise ValueError(
            f"Rank {comm.rank} of {comm.size} has {tokens} tokens, and lengths is {list(lengths)}: give every "
            f"rank's number."
        )
