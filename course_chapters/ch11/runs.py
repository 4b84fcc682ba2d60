"""Chapter 11's runs on the metered cluster: each way of sharing a sequence against full attention, on the clock, and in
a training."""

from collections.abc import Mapping, Sequence
from typing import Unpack

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.cluster import Comm, Run, Topology, simulate
from course_lib.cluster.parity import apart
from course_lib.cluster.simulation import Options
from course_lib.model import text, transformer
from course_lib.model.modules import gradient
from course_lib.parallel.context import (
    CAUSAL,
    Mask,
    context_parallelize,
    contiguous,
    cut,
    groups,
    join,
    ring_attention,
    zig_zag,
)
from course_lib.parallel.context.costs import gather_traffic, ring_traffic, ulysses_traffic
from course_lib.parallel.context.model import WAYS
from course_lib.parallel.data import DataParallel
from course_lib.parallel.data.token_weighting import loss_scale
from course_lib.parallel.tensor import parallelize

HEADS, KV_HEADS, DIM, LENGTH, RANKS = 4, 2, 8, 32, 4  # of the chapter's small attention
SMALL = transformer.Config(layers=2, hidden=32, heads=4, kv_heads=2, seq_len=LENGTH)
MESHES: Sequence[Mapping[str, int]] = ({"cp": 4}, {"cp": 2, "tp": 2}, {"dp": 2, "cp": 2}, {"dp": 2, "cp": 2, "tp": 2})


def tensors(length: int = LENGTH, heads: int = HEADS, kv_heads: int = KV_HEADS, dim: int = DIM) -> list[Tensor]:
    """Random q, k, v and a gradient of the output, (heads, length, dim), fp64; always the same."""
    coin = torch.Generator().manual_seed(11)
    return [
        torch.randn(each, length, dim, generator=coin, dtype=torch.float64)
        for each in (heads, kv_heads, kv_heads, heads)
    ]


def full_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    """Attention of all queries to all keys on one rank, by torch's kernel; fewer KV heads are shared."""
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def forward_and_backward(
    comm: Comm, way: str, parts: Sequence[Tensor], positions: Sequence[Tensor], mask: Mask
) -> list[Tensor]:
    """Output, dq, dk and dv of this rank's tokens."""
    leaves = [x.clone().requires_grad_() for x in parts[:3]]
    out = WAYS[way](comm, *leaves, positions, mask)[0]
    out.backward(parts[3])
    return [out.detach(), *map(gradient, leaves)]


def shared(
    way: str,
    positions: Sequence[Tensor],
    mask: Mask = CAUSAL,
    given: Sequence[Tensor] | None = None,
    **options: Unpack[Options],
) -> Run:
    """A run of one way, forward and backward, with these tokens on each rank."""
    given = tensors(sum(map(len, positions))) if given is None else given
    per_rank = [(way, [cut(x, own) for x in given], positions, mask) for own in positions]
    return simulate(forward_and_backward, len(positions), per_rank=per_rank, **options)


def parity(way: str) -> tuple[float, Run]:
    """How far outputs and gradients of a way are from full attention, in units of what rounding allows, and the run."""
    positions, given = zig_zag(LENGTH, RANKS), tensors()
    leaves = [x.clone().requires_grad_() for x in given[:3]]
    exact = full_attention(leaves[0], leaves[1], leaves[2])
    exact.backward(given[3])
    run = shared(way, positions, given=given)
    together = [join(parts, positions) for parts in zip(*run.results, strict=True)]
    wanted = [exact.detach(), *map(gradient, leaves)]
    return max(apart(mine, want, 64 * LENGTH) for mine, want in zip(together, wanted, strict=True)), run


def predicted_bytes(way: str) -> float:
    """The formula's bytes of a rank for `parity`'s run, in fp64."""
    if way == "ulysses":
        return float(ulysses_traffic(LENGTH, HEADS, KV_HEADS, DIM, RANKS, 8).nbytes)
    return float((ring_traffic if way == "ring" else gather_traffic)(LENGTH, KV_HEADS, DIM, RANKS, 8).nbytes)


def _one_ring(comm: Comm, q: Tensor, k: Tensor, v: Tensor, positions: Sequence[Tensor], overlap: bool) -> None:
    q, k, v = (cut(x, positions[comm.rank]) for x in (q, k, v))
    ring_attention(comm, q, k, v, positions, CAUSAL, overlap)


def on_the_clock(layout: str, overlap: bool = True, flops: float = 1e9) -> Run:
    """A ring's forward pass on four ranks with a clock, over links on which a block takes half as long as a step
    computes."""
    positions = {"contiguous": contiguous, "zig-zag": zig_zag}[layout](128, RANKS)
    q, k, v, _ = tensors(128)
    return simulate(_one_ring, RANKS, args=(q, k, v, positions, overlap), topology=Topology.flat(1e-6, 1.2e8, flops))


# --- a training ---------------------------------------------------------------------------------------


def train_whole(steps: int) -> list[float]:
    """Losses of the small model on one rank, fp64, AdamW, four sequences a step."""
    model = transformer.build(SMALL).double()
    step = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for number in range(steps):
        tokens, targets = text.batch(number, 4, LENGTH)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


def train_rank(comm: Comm, mesh: Mapping[str, int], steps: int) -> list[float]:
    """The same training by one rank of a mesh of data, context and tensor parallelism."""
    mine = groups(comm, **mesh)
    whole = transformer.build(SMALL).double()
    part = parallelize(whole, mine["tp"]) if mine["tp"].size > 1 else None
    model = part or whole
    context = context_parallelize(model, mine["cp"], zig_zag(LENGTH, mine["cp"].size))
    replica = DataParallel(mine["data"], model)  # averages over data *and* context
    step = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for number in range(steps):
        batch = text.batch(number, 4, LENGTH)  # shifted before the cut
        tokens, targets = (x.chunk(mine["dp"].size)[mine["dp"].rank][:, context.own] for x in batch)
        step.zero_grad()
        logits = replica(tokens)
        if part is not None:
            total = part.loss(logits, targets) * targets.numel()
        else:
            total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        weighted = total * loss_scale(mine["data"], targets.numel())
        weighted.backward()
        replica.finish()
        if part is not None:
            part.finish()
        step.step()
        mean = weighted.detach().clone()
        mine["data"].all_reduce(mean)
        losses.append(mean.item() / mine["data"].size)
    return losses


def train_mesh(mesh: Mapping[str, int], steps: int) -> list[float]:
    """Losses of the training on a mesh; every rank has the same."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    return simulate(train_rank, ranks, args=(mesh, steps)).results[0]
