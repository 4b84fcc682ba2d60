"""Context parallelism in a real run: each rank has some tokens of every sequence, and attention gathers the keys and
values of all.

Rank r has block r and block 2N − 1 − r of 2N, so that all ranks have as much to do (`context_parallel.zig_zag`). Keys
and values are gathered forward and again backward, and their gradients are reduce-scattered: the Llama team, "The Llama
3 herd of models" (2024), section 3.3.2. PyTorch's own `context_parallel` knows the kernels of GPUs only. Here the
device's fused kernel computes each tile, and tiles are merged by their log-sum-exps as in `context_parallel.partial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn import functional as F

from course_lib.model.transformer import Block
from course_lib.parallel.context import attend, attend_backward, merge, zig_zag
from course_runs.layouts import RunLayout
from course_runs.model import Piece

aten = torch.ops.aten
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name since torch 2.13
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
WHOLE = 8  # numbers of a head that a GPU's flash kernel wants a multiple of
Tile = tuple[slice, slice, bool]  # rows of queries, columns of keys, whether a query sees only the keys up to its own


def positions(layout: RunLayout, seq_len: int, rank: int) -> Tensor | None:
    """The positions of a context-parallel rank's tokens, (seq_len / cp,); None where a rank has whole sequences."""
    return zig_zag(seq_len, layout.cp)[rank] if layout.cp > 1 else None


def mesh_of(layout: RunLayout, device: str) -> DeviceMesh:
    """The ranks that share sequences, as the axis "cp" of a mesh of their own."""
    shape = (layout.pp, layout.data, layout.cp, layout.tp)
    return init_device_mesh(device, shape, mesh_dim_names=("pp", "data", "cp", "tp"))["cp"]


def spread(model: Piece, context: Context) -> None:
    """Make `model` take this rank's tokens: rotary angles of their positions, attention to the keys of all ranks."""
    own = zig_zag(model.config.seq_len, context.ranks)[context.rank]
    for block in model.blocks.values():
        assert isinstance(block, Block)
        layer = block.attention
        layer.cos, layer.sin = (table[own.to(table.device)].clone() for table in (layer.cos, layer.sin))
        layer.core = context.attend


@dataclass(frozen=True, eq=False)
class Context:
    """One rank among those that share sequences. Without a group it sends nothing and copies instead: `rates` times a
    block so."""

    rank: int
    ranks: int
    group: dist.ProcessGroup | None = None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, kind: str = "flash", dropout: float = 0.0) -> Tensor:
        """Causal attention of this rank's queries (B, A, S / cp, D) to all ranks' keys; k and v (B, K, S / cp, D)."""
        if dropout:
            raise ValueError(f"dropout is {dropout}; attention across ranks has none, so use dropout=0.")
        return _Gathered.apply(q, torch.stack((k, v)), self)

    def gather(self, kv: Tensor) -> Tensor:
        """Keys and values of all ranks in the order of the sequence: (2, B, K, S / cp, D) to (2, B, K, S, D)."""
        flat = kv.contiguous()
        parts = flat.new_empty((self.ranks, *flat.shape))
        if self.group is None:
            parts.copy_(flat.expand_as(parts))
        else:
            _all_gather(parts.view(-1), flat.view(-1), group=self.group)
        blocks = [half for part in parts for half in part.chunk(2, -2)]  # of ranks 0, 0, 1, 1, …
        return torch.cat(blocks[0::2] + blocks[1::2][::-1], -2)

    def scatter(self, grads: Tensor) -> Tensor:
        """This rank's tokens of the sum of all ranks' gradients: the reverse of `gather`."""
        blocks = grads.chunk(2 * self.ranks, -2)
        parts = torch.stack([torch.cat((blocks[rank], blocks[-1 - rank]), -2) for rank in range(self.ranks)])
        if self.group is None:
            return parts[self.rank]
        mine = torch.empty_like(parts[0])
        _reduce_scatter(mine.view(-1), parts.view(-1), group=self.group)
        return mine

    def tiles(self, tokens: int) -> Iterator[Tile]:
        """The tiles of this rank's `tokens` queries: for each of its two blocks the keys before it, and its own."""
        block = tokens // 2
        for place, number in enumerate((self.rank, 2 * self.ranks - 1 - self.rank)):
            rows, start = slice(place * block, (place + 1) * block), number * block
            if start:
                yield rows, slice(0, start), False
            yield rows, slice(start, start + block), True


class _Gathered(Function):
    @staticmethod
    def forward(ctx, q: Tensor, kv: Tensor, context: Context) -> Tensor:
        k, v = _for_all_heads(context.gather(kv), q.shape[1])
        kernel, _ = kernels(q)
        found: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for rows, columns, causal in context.tiles(q.shape[2]):
            part = kernel(q[:, :, rows], k[:, :, columns], v[:, :, columns], causal)
            found.setdefault(rows.start, []).append(part)
        merged = [merge(parts) if len(parts) > 1 else parts[0] for parts in found.values()]
        out = torch.cat([part for part, _ in merged], 2).to(q.dtype)
        ctx.save_for_backward(q, kv, out, torch.cat([log_sum for _, log_sum in merged], 2))
        ctx.context = context
        return out

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, ...]:
        (q, kv, out, log_sum), context = ctx.saved_tensors, ctx.context
        k, v = _for_all_heads(context.gather(kv), q.shape[1])
        _, kernel = kernels(q)
        wide = torch.promote_types(q.dtype, torch.float32)
        dq, dk, dv = (torch.zeros_like(x, dtype=wide) for x in (q, k, v))
        for rows, columns, causal in context.tiles(q.shape[2]):
            given = (x[:, :, rows] for x in (grad, q, out, log_sum))
            to_q, to_k, to_v = kernel(*given, k[:, :, columns], v[:, :, columns], causal)
            dq[:, :, rows] += to_q
            dk[:, :, columns] += to_k
            dv[:, :, columns] += to_v
        shared = torch.stack([x.unflatten(1, (kv.shape[2], -1)).sum(2) for x in (dk, dv)])
        return dq.to(q.dtype), context.scatter(shared).to(kv.dtype), None


def _for_all_heads(kv: Tensor, heads: int) -> Tensor:
    """Keys and values repeated for every query head of their group."""
    return kv.repeat_interleave(heads // kv.shape[2], 2)


Forward = Callable[..., tuple[Tensor, Tensor]]
Grads = tuple[Tensor, Tensor, Tensor]  # of queries, keys and values
Backward = Callable[..., Grads]


def kernels(q: Tensor) -> tuple[Forward, Backward]:
    """The device's attention of one tile with its log-sum-exp, and its backward pass: fused, or plain for fp32 on a
    GPU."""
    if q.device.type == "cpu":
        return _cpu, _cpu_backward
    return (_plain, _plain_backward) if q.dtype == torch.float32 else (_gpu, _gpu_backward)


def _cpu(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    out, log_sum = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    return out, log_sum


def _cpu_backward(grad: Tensor, q: Tensor, out: Tensor, log_sum: Tensor, k: Tensor, v: Tensor, causal: bool) -> Grads:
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, log_sum, 0.0, causal)


def _gpu(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    width, (q, k, v) = q.shape[-1], _in_whole_rows(q, k, v)
    out, log_sum, *_ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=width**-0.5)
    return out[..., :width], log_sum


def _gpu_backward(grad: Tensor, q: Tensor, out: Tensor, log_sum: Tensor, k: Tensor, v: Tensor, causal: bool) -> Grads:
    width, length, keys = q.shape[-1], q.shape[2], k.shape[2]
    grad, q, out, k, v = _in_whole_rows(grad, q, out, k, v)
    none = torch.empty(0, dtype=torch.uint64, device=q.device)  # dropout's seed and offset: there is no dropout
    to_q, to_k, to_v = aten._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, log_sum.contiguous(), None, None, length, keys, 0.0, causal, none, none, scale=width**-0.5
    )
    return to_q[..., :width], to_k[..., :width], to_v[..., :width]


def _in_whole_rows(*tensors: Tensor) -> list[Tensor]:
    return [F.pad(each, (0, -each.shape[-1] % WHOLE)) for each in tensors]


def _plain(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    return attend(q, k, v, _seen(q, k) if causal else None)


def _plain_backward(grad: Tensor, q: Tensor, out: Tensor, log_sum: Tensor, k: Tensor, v: Tensor, causal: bool) -> Grads:
    return attend_backward(q, k, v, log_sum, grad, (grad * out).sum(-1), _seen(q, k) if causal else None)


def _seen(q: Tensor, k: Tensor) -> Tensor:
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
