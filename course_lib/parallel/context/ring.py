"""Ring attention: every block of keys and values visits every rank, and the gradients of a block travel home.

In step s rank r computes with the block of rank r − s while that block is already on its way to rank r + 1. Forward a
rank holds two blocks, backward two blocks and the gradients of three: never the keys of the whole sequence. Liu,
Zaharia, Abbeel, "Ring attention with blockwise transformers for near-infinite context" (2023).
"""

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm, P2POp, Work
from course_lib.parallel.context.attention_blocks import attend_tiles, backward_tiles, check_shapes, saved_for_backward
from course_lib.parallel.context.layout import CAUSAL, Mask, Positions
from course_lib.parallel.context.log_sum_exp_merge import nothing_yet, wide


def ring_attention(
    comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Positions, mask: Mask = CAUSAL, overlap: bool = True
) -> tuple[Tensor, Tensor]:
    """Attention of this rank's queries to the keys of all ranks: output in q's dtype, and log_sum in fp32 at least.

    q (…, heads, own tokens, head_dim), k and v (…, kv_heads, own tokens, head_dim); `positions[rank]` are the global
    positions of a rank's tokens. All ranks call it together, in the backward pass too. Ranks may have unequal numbers
    of tokens, or none. `overlap=False` sends a block only after computing with it. log_sum has no gradient.
    """
    check_shapes(comm, q, k, v, positions)
    return _Ring.apply(q, k, v, comm, positions, mask, overlap)


class _Ring(Function):
    @staticmethod
    def forward(
        ctx, q: Tensor, k: Tensor, v: Tensor, comm: Comm, positions: Positions, mask: Mask, overlap: bool
    ) -> tuple[Tensor, Tensor]:
        out, log_sum = nothing_yet(q)
        block = torch.stack((k, v))
        for step in range(comm.size):
            owner = (comm.rank - step) % comm.size
            travel = step < comm.size - 1 and _Hop(comm, block, _block_of(k, positions, owner - 1), overlap)
            tiles = list(mask.tiles(positions[comm.rank], positions[owner]))
            attend_tiles(comm, q, block, tiles, (out, log_sum))
            if travel:
                block = travel.finish()
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, log_sum)
        ctx.comm, ctx.positions, ctx.mask, ctx.overlap = comm, positions, mask, overlap
        ctx.mark_non_differentiable(log_sum)
        return out, log_sum

    @staticmethod
    def backward(ctx, grad_out: Tensor, _: object) -> tuple[Tensor | None, ...]:
        (q, k, v, out, log_sum), comm, positions = ctx.saved_tensors, ctx.comm, ctx.positions
        kind, saved = wide(q.dtype), saved_for_backward(out, log_sum, grad_out)
        block = torch.stack((k, v))
        dq, home = torch.zeros_like(q, dtype=kind), torch.zeros_like(block, dtype=kind)
        grads = home  # of the block of this step
        for step in range(comm.size):
            owner = (comm.rank - step) % comm.size
            travel = step < comm.size - 1 and _Hop(comm, block, _block_of(k, positions, owner - 1), ctx.overlap)
            # A block's gradient starts at the rank after its owner, in step 1, and follows the block from there.
            follow = step > 1 and _Hop(comm, grads, _block_of(k, positions, owner, kind), True)
            grads = home if step == 0 else torch.zeros_like(block, dtype=kind)
            tiles = list(ctx.mask.tiles(positions[comm.rank], positions[owner]))
            backward_tiles(comm, q, block, tiles, saved, dq, grads)
            if follow:
                grads += follow.finish()
            if travel:
                block = travel.finish()
        if comm.size > 1:  # the last block is the next rank's: its gradient is complete
            home += _Hop(comm, grads, torch.empty_like(home), True).finish()
        return dq.to(q.dtype), home[0].to(k.dtype), home[1].to(v.dtype), None, None, None, None


class _Hop:
    """A block on its way to the next rank, and another arriving from the rank before; blocks without tokens are not
    sent."""

    def __init__(self, comm: Comm, block: Tensor, arrives: Tensor, now: bool) -> None:
        self.comm, self.block, self.arrives, self.works = comm, block, arrives, None
        if now:
            self.works = self._start()

    def _start(self) -> list[Work]:
        size, rank = self.comm.size, self.comm.rank
        halves = []
        if self.arrives.numel():
            halves.append(P2POp(self.comm.irecv, self.arrives, (rank - 1) % size))
        if self.block.numel():
            halves.append(P2POp(self.comm.isend, self.block, (rank + 1) % size))
        return list(self.comm.batch_isend_irecv(halves)) if halves else []

    def finish(self) -> Tensor:
        """Wait for both transfers; the block that arrived."""
        for work in self._start() if self.works is None else self.works:
            work.wait()
        return self.arrives


def _block_of(k: Tensor, positions: Positions, rank: int, dtype: torch.dtype | None = None) -> Tensor:
    """Memory for the keys and values of another rank, (2, …, kv_heads, its tokens, head_dim)."""
    tokens = len(positions[rank % len(positions)])
    return k.new_empty((2, *k.shape[:-2], tokens, k.shape[-1]), dtype=dtype or k.dtype)
