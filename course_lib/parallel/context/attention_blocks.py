"""Attention tile by tile: what every form of context parallelism computes on a rank, and its backward pass."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import Function

from course_lib.cluster import Comm
from course_lib.parallel.context.costs import attention_flops
from course_lib.parallel.context.layout import Mask, Positions, Tile
from course_lib.parallel.context.log_sum_exp_merge import Part, attend, attend_backward, merge, nothing_yet, wide


def attend_tiles(comm: Comm, q: Tensor, kv: Tensor, tiles: Sequence[Tile], so_far: Part) -> None:
    """Merge the attention to keys and values `kv` (2, …, kv_heads, keys, head_dim) into `so_far`, in place."""
    out, log_sum = so_far
    k, v = kv
    for rows, columns, visible in tiles:
        part = attend(q[..., rows, :], k[..., columns, :], v[..., columns, :], visible)
        out[..., rows, :], log_sum[..., rows] = merge([(out[..., rows, :], log_sum[..., rows]), part])
    count(comm, q, tiles)


def backward_tiles(
    comm: Comm, q: Tensor, kv: Tensor, tiles: Sequence[Tile], saved: tuple[Tensor, ...], dq: Tensor, dkv: Tensor
) -> None:
    """Add the gradients of these tiles to `dq` and `dkv`, in fp32 at least. `saved`: log_sum, grad_out, delta."""
    k, v = kv
    log_sum, grad_out, delta = saved
    for rows, columns, visible in tiles:
        to_q, to_k, to_v = attend_backward(
            q[..., rows, :],
            k[..., columns, :],
            v[..., columns, :],
            log_sum[..., rows],
            grad_out[..., rows, :],
            delta[..., rows],
            visible,
        )
        dq[..., rows, :] += to_q
        dkv[0][..., columns, :] += to_k
        dkv[1][..., columns, :] += to_v
    count(comm, q, tiles, backward=True)


def count(comm: Comm, q: Tensor, tiles: Sequence[Tile], backward: bool = False) -> None:
    """Advance the cluster's virtual clock by the FLOPs of these tiles; on real processes this does nothing."""
    done = sum((rows.stop - rows.start) * (columns.stop - columns.start) for rows, columns, _ in tiles)
    flops = attention_flops(done * q.shape[:-3].numel(), q.shape[-3], q.shape[-1], backward)
    comm.compute(flops=float(flops), kind="backward" if backward else "forward")


def saved_for_backward(out: Tensor, log_sum: Tensor, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log_sum, the output's gradient, and delta = Σ grad_out·out: all that the backward pass needs of the forward
    pass."""
    grad_out = grad_out.to(wide(out.dtype))
    return log_sum, grad_out, (grad_out * out).sum(-1)


def local_attention(
    comm: Comm, q: Tensor, k: Tensor, v: Tensor, queries: Tensor, keys: Tensor, mask: Mask
) -> tuple[Tensor, Tensor]:
    """Attention to keys that this rank has, by global positions: output in q's dtype and log_sum. Sends nothing."""
    return _Local.apply(q, torch.stack((k, v)), comm, list(mask.tiles(queries, keys)))


class _Local(Function):
    @staticmethod
    def forward(ctx, q: Tensor, kv: Tensor, comm: Comm, tiles: list[Tile]) -> tuple[Tensor, Tensor]:
        out, log_sum = nothing_yet(q)
        attend_tiles(comm, q, kv, tiles, (out, log_sum))
        out = out.to(q.dtype)
        ctx.save_for_backward(q, kv, out, log_sum)
        ctx.comm, ctx.tiles = comm, tiles
        ctx.mark_non_differentiable(log_sum)
        return out, log_sum

    @staticmethod
    def backward(ctx, grad_out: Tensor, _: object) -> tuple[Tensor | None, ...]:
        q, kv, out, log_sum = ctx.saved_tensors
        dq, dkv = (torch.zeros_like(x, dtype=wide(x.dtype)) for x in (q, kv))
        saved = saved_for_backward(out, log_sum, grad_out)
        backward_tiles(ctx.comm, q, kv, ctx.tiles, saved, dq, dkv)
        return dq.to(q.dtype), dkv.to(kv.dtype), None, None


def check_shapes(comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Positions) -> None:
    """ValueError where tensors and layout do not fit, naming what would."""
    if len(positions) != comm.size:
        raise ValueError(f"The layout has {len(positions)} parts, and there are {comm.size} ranks; give one per rank.")
    own = len(positions[comm.rank])
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim < 3 or x.shape[-2] != own:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}; rank {comm.rank} has {own} tokens, so give (…, heads, "
                f"{own}, head_dim)."
            )
    if k.shape != v.shape or q.shape[-1] != k.shape[-1] or q.shape[:-3] != k.shape[:-3]:
        raise ValueError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)}: k and v must have the same shape, and q "
            "the same head_dim and leading dimensions."
        )
    if q.shape[-3] % k.shape[-3]:
        fits = [n for n in range(1, q.shape[-3] + 1) if q.shape[-3] % n == 0]
        raise ValueError(f"{k.shape[-3]} KV heads do not divide {q.shape[-3]} query heads; choose from {fits}.")
