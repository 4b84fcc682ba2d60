"""Send only the keys that somebody needs: the neighbor's last ones under a sliding window, or those of a shared
document.

Which keys a rank needs follows from the layout and the mask, which all ranks know, so nobody has to ask.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm
from course_lib.parallel.context.attention_blocks import check_shapes, local_attention
from course_lib.parallel.context.layout import CAUSAL, Mask, Positions
from course_lib.parallel.context.ulysses import exchange


def needed_keys(positions: Positions, mask: Mask = CAUSAL) -> list[list[Tensor]]:
    """`needed[to][source]`: which of a source rank's tokens some query of rank `to` sees, as indices into its part."""
    return [[mask.visible(to, source).any(0).nonzero().flatten() for source in positions] for to in positions]


def needed_attention(
    comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Positions, mask: Mask = CAUSAL
) -> tuple[Tensor, Tensor]:
    """As `ring_attention`, by one exchange of exactly the keys and values that the other ranks' queries see."""
    check_shapes(comm, q, k, v, positions)
    needed, me = needed_keys(positions, mask), comm.rank
    keys = torch.cat([own[index] for own, index in zip(positions, needed[me], strict=True)])
    k, v = _Exchange.apply(torch.stack((k, v)), comm, needed)
    return local_attention(comm, q, k, v, positions[me], keys, mask)


class _Exchange(Function):
    @staticmethod
    def forward(ctx, kv: Tensor, comm: Comm, needed: list[list[Tensor]]) -> Tensor:
        me = comm.rank
        ctx.comm, ctx.needed, ctx.shape = comm, needed, kv.shape
        sent = [kv.index_select(-2, of_rank[me]) for of_rank in needed]
        return torch.cat(exchange(comm, sent, [_like(kv, len(index)) for index in needed[me]]), -2)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        me, needed = ctx.comm.rank, ctx.needed
        sent = grad.split([len(index) for index in needed[me]], -2)
        total = grad.new_zeros(ctx.shape)
        shapes = [_like(grad, len(of_rank[me])) for of_rank in needed]
        for of_rank, part in zip(needed, exchange(ctx.comm, sent, shapes), strict=True):
            total.index_add_(-2, of_rank[me], part)
        return total, None, None


def _like(x: Tensor, tokens: int) -> tuple[int, ...]:
    return (*x.shape[:-2], tokens, x.shape[-1])
