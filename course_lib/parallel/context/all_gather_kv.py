"""All-gather of keys and values: every rank has those of the whole sequence for one layer at a time, and attends
locally.

More memory than a ring, one message instead of N − 1, any mask without thought, and with grouped queries little to
send. The Llama team, "The Llama 3 herd of models" (2024), section 3.3.2.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm
from course_lib.parallel.context.attention_blocks import attend_tiles, backward_tiles, check_shapes, saved_for_backward
from course_lib.parallel.context.layout import CAUSAL, Mask, Positions
from course_lib.parallel.context.log_sum_exp_merge import nothing_yet, wide


def gather_attention(
    comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Positions, mask: Mask = CAUSAL, regather: bool = True
) -> tuple[Tensor, Tensor]:
    """As `ring_attention`, by one all-gather; ranks with fewer tokens pad theirs to the longest part.

    `regather`: keep only this rank's keys and values for the backward pass, and gather them again there.
    """
    check_shapes(comm, q, k, v, positions)
    return _Gathered.apply(q, torch.stack((k, v)), comm, positions, mask, regather)


class _Gathered(Function):
    @staticmethod
    def forward(
        ctx, q: Tensor, kv: Tensor, comm: Comm, positions: Positions, mask: Mask, regather: bool
    ) -> tuple[Tensor, Tensor]:
        whole, (out, log_sum) = _gather(comm, kv, positions), nothing_yet(q)
        ctx.tiles = list(mask.tiles(positions[comm.rank], torch.cat(list(positions))))
        attend_tiles(comm, q, whole, ctx.tiles, (out, log_sum))
        out = out.to(q.dtype)
        ctx.save_for_backward(q, kv if regather else whole, out, log_sum)
        ctx.comm, ctx.positions, ctx.regather = comm, positions, regather
        ctx.mark_non_differentiable(log_sum)
        return out, log_sum

    @staticmethod
    def backward(ctx, grad_out: Tensor, _: object) -> tuple[Tensor | None, ...]:
        q, kv, out, log_sum = ctx.saved_tensors
        whole = _gather(ctx.comm, kv, ctx.positions) if ctx.regather else kv
        dq, dkv = (torch.zeros_like(x, dtype=wide(x.dtype)) for x in (q, whole))
        saved = saved_for_backward(out, log_sum, grad_out)
        backward_tiles(ctx.comm, q, whole, ctx.tiles, saved, dq, dkv)
        return dq.to(q.dtype), _scatter(ctx.comm, dkv, ctx.positions).to(kv.dtype), None, None, None, None


def _gather(comm: Comm, x: Tensor, positions: Positions) -> Tensor:
    """All ranks' tokens of x (…, own tokens, head_dim), in the order of ranks."""
    lengths = [len(own) for own in positions]
    padded = torch.zeros((*x.shape[:-2], max(lengths), x.shape[-1]), dtype=x.dtype, device=x.device)
    padded[..., : x.shape[-2], :] = x
    parts = padded.new_empty((comm.size, *padded.shape))
    if parts.numel():
        comm.all_gather_into_tensor(parts, padded)
    return torch.cat([part[..., :length, :] for part, length in zip(parts, lengths, strict=True)], -2)


def _scatter(comm: Comm, x: Tensor, positions: Positions) -> Tensor:
    """This rank's tokens of the sum of x (…, all tokens in the order of ranks, head_dim) over ranks."""
    lengths = [len(own) for own in positions]
    rows = torch.zeros((comm.size, *x.shape[:-2], max(lengths), x.shape[-1]), dtype=x.dtype, device=x.device)
    for row, part in zip(rows, x.split(lengths, -2), strict=True):
        row[..., : part.shape[-2], :] = part
    own = rows.new_empty(rows.shape[1:])
    if own.numel():
        comm.reduce_scatter_tensor(own, rows)
    return own[..., : lengths[comm.rank], :]
