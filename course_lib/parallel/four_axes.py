"""One transformer trained on four axes, dp × pp × cp × tp, in one file to be read from top to bottom.

    run = simulate(train, 16, ({"dp": 2, "pp": 2, "cp": 2, "tp": 2}, Job()))  # `launch`: the same on real processes
    put_together(run.results)["head.weight"]                                   # what the whole model would have

Every rank runs `train`, the last function but one. Each axis divides one thing, and sends another:

    axis  a rank has                    it sends
    tp    columns or rows of matrices   sums of activations, two all-reduces a layer and pass      chapter 09
    cp    tokens of every sequence      keys and values around a ring, and their gradients         chapter 11
    pp    consecutive layers            a micro-batch's activation on, its gradient back           chapter 10
    dp    sequences of the batch        nothing of its own: gradients are summed over dp × cp      chapter 07

Speed is left out: nothing is overlapped, and there is no sequence parallelism and no sharded state. The chapters add them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from course_lib.cluster import MAX, Comm
from course_lib.cluster.collectives import swap
from course_lib.model import text, transformer
from course_lib.model.optimizer import adamw_update
from course_lib.model.transformer import Config, again, rotary_tables, rotate
from course_lib.parallel.mesh import Mesh
from course_lib.parallel.schedules import one_f_one_b

AXES = ("dp", "pp", "cp", "tp")  # slowest first: ranks that differ in tp alone are consecutive


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is trained. The same job gives the same losses, gradients and weights on every mesh."""

    config: Config = Config(layers=4, hidden=16, heads=4, kv_heads=2, seq_len=16)
    sequences: int = 8  # of a step, on all replicas together
    microbatches: int = 2  # into which each replica divides its sequences
    steps: int = 3
    lr: float = 3e-3
    weight_decay: float = 0.01
    max_norm: float = 1.0  # gradients are clipped to this global norm
    seed: int = 0
    dtype: torch.dtype = torch.float64
    batch: Callable[..., tuple[Tensor, Tensor]] = text.batch  # (step, sequences, seq_len) -> tokens, targets


# --- 1. Who is where: coordinates, groups and this rank's part of everything


@dataclass
class Rank:
    """One rank: its coordinates, its communicators, and its part of the model."""

    config: Config
    at: Mapping[str, int]  # its coordinate along each axis
    size: Mapping[str, int]  # ranks along each axis
    tp: Comm
    cp: Comm
    pp: Comm
    replicas: Comm  # dp × cp: ranks with the same weights, and other tokens
    tokens: Tensor  # its positions in every sequence
    angles: tuple[Tensor, Tensor]  # cosines and sines of these positions
    weights: dict[str, Tensor] = field(default_factory=dict)  # by their names in the whole model


def set_up(comm: Comm, sizes: Mapping[str, int], job: Job) -> Rank:
    """This rank's coordinates, groups and weights. ValueError if the axes do not divide the job."""
    if unknown := [axis for axis in sizes if axis not in AXES]:
        raise ValueError(f"There is no axis {unknown[0]!r} here; the axes are {', '.join(AXES)}.")
    mesh = Mesh({axis: sizes.get(axis, 1) for axis in AXES})
    if mesh.size != comm.size:
        product = " × ".join(f"{axis}={size}" for axis, size in mesh.sizes.items())
        raise ValueError(f"{product} makes {mesh.size} ranks, and there are {comm.size}.")
    check(mesh.sizes, job)
    groups = [_group(comm, mesh, *axes) for axes in (("tp",), ("cp",), ("pp",), ("dp", "cp"))]
    at = mesh.coordinates(comm.rank)
    tokens = own_tokens(job.config.seq_len, mesh.sizes["cp"], at["cp"])
    cos, sin = (table[tokens].to(job.dtype) for table in rotary_tables(job.config.seq_len, job.config.head_dim))
    rank = Rank(job.config, at, mesh.sizes, *groups, tokens, (cos, sin))
    rank.weights = own_weights(rank, job)
    return rank


def _group(comm: Comm, mesh: Mesh, *axes: str) -> Comm:
    """This rank's group along these axes. Every rank makes every group, in the same order, as torch demands."""
    made = [(comm.rank in ranks, comm.new_group(ranks)) for ranks in mesh.groups(*axes)]
    return next(group for inside, group in made if inside)


def check(size: Mapping[str, int], job: Job) -> None:
    """ValueError if an axis does not divide what it cuts, or if the model has a part that this file leaves out."""
    one, tp = job.config, size["tp"]
    for who, unit, what, count in (
        (f"dp={size['dp']}", size["dp"] * job.microbatches, "sequences, the same number in each micro-batch", job.sequences),
        (f"pp={size['pp']}", size["pp"], "layers", one.layers),
        (f"cp={size['cp']}", 2 * size["cp"] if size["cp"] > 1 else 1, "tokens in a sequence, two blocks a rank", one.seq_len),
        (f"tp={tp}", tp, "heads", one.heads),
        (f"tp={tp}", tp, "key-value heads", one.kv_heads),
        (f"tp={tp}", tp, "columns of the MLP (ffn)", one.ffn),
        (f"tp={tp}", tp, "tokens in the vocabulary", one.vocab),
    ):
        if count % unit:
            raise ValueError(f"{who} needs a multiple of {unit} {what}; there are {count}.")
    for name, value in {"dropout": 0.0, "checkpointing": "none", "biases": False, "positions": "rotary"}.items():
        if getattr(one, name) != value:
            raise ValueError(f"This file trains models with {name}={value!r} only, not {getattr(one, name)!r}.")
    if job.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"This file trains in torch.float32 or torch.float64, not in {job.dtype}.")


# pp: which stages hold a parameter; tp: along which dimension a matrix is cut; cp: which tokens are whose


def stages_of(name: str, config: Config, stages: int) -> set[int]:
    """The pipeline stages that hold a parameter: one, except for a tied embedding, which is the last stage's head as well."""
    if name.startswith("blocks."):
        return {int(name.split(".")[1]) * stages // config.layers}
    if name == "embedding.weight":
        return {0, stages - 1} if config.tied else {0}
    return {stages - 1}


CUT = {  # `F.linear` wants a matrix as (outputs, inputs)
    **dict.fromkeys(("wq", "wk", "wv", "gate", "up"), 0),  # outputs: heads, or columns of the MLP
    **dict.fromkeys(("wo", "down"), 1),  # inputs, which are the outputs of those above
    **dict.fromkeys(("embedding", "head"), 0),  # tokens of the vocabulary
}


def cut_along(name: str) -> int | None:
    """The dimension along which tp cuts a parameter; None for norms, which every tp rank holds whole."""
    return CUT.get(name.split(".")[-2])


def own_weights(rank: Rank, job: Job) -> dict[str, Tensor]:
    """This rank's part of the model that one process would start with. (A large model would be drawn part by part.)"""
    mine = {}
    for name, whole in transformer.build(job.config, job.seed).to(job.dtype).named_parameters():
        if rank.at["pp"] in stages_of(name, job.config, rank.size["pp"]):
            dim = cut_along(name)
            part = whole if dim is None else whole.chunk(rank.size["tp"], dim)[rank.at["tp"]]
            mine[name] = part.detach().clone().requires_grad_()
    return mine


def own_tokens(seq_len: int, ranks: int, rank: int) -> Tensor:
    """The zig-zag: block `rank` of 2·`ranks` blocks and its mirror image, an early block and a late one."""
    blocks = torch.arange(seq_len).chunk(2 * ranks)
    return torch.cat([blocks[rank], blocks[-1 - rank]])


# --- 2. tp: two products, one all-reduce forward and one backward


class CopyIn(Function):
    """The way into a region where tp ranks differ: nothing happens forward, and backward the ranks' gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tp: Comm) -> Tensor:
        ctx.tp = tp
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.clone(memory_format=torch.contiguous_format)
        ctx.tp.all_reduce(total)
        return total, None


class SumOut(Function):
    """The way out: the ranks' parts are summed forward, and backward the gradient, which all ranks have, passes unchanged."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, tp: Comm) -> Tensor:
        total = part.clone(memory_format=torch.contiguous_format)
        tp.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


def column_parallel(x: Tensor, weights: Sequence[Tensor], tp: Comm) -> list[Tensor]:
    """This rank's outputs of several matrices with the same input, which every rank has whole."""
    x = CopyIn.apply(x, tp)
    return [F.linear(x, weight) for weight in weights]


def row_parallel(part: Tensor, weight: Tensor, tp: Comm) -> Tensor:
    """All outputs on every rank, from this rank's inputs: each rank computes one term of a sum."""
    return SumOut.apply(F.linear(part, weight), tp)


def embed(rank: Rank, tokens: Tensor) -> Tensor:
    """Vectors of tokens: each tp rank looks up those that are in its rows, and gives zeros for the others."""
    table = rank.weights["embedding.weight"]
    place = tokens - rank.at["tp"] * len(table)
    elsewhere = (place < 0) | (place >= len(table))
    return SumOut.apply(F.embedding(place.masked_fill(elsewhere, 0), table).masked_fill(elsewhere[..., None], 0), rank.tp)


def loss_sum(rank: Rank, x: Tensor, targets: Tensor) -> Tensor:
    """The sum of the cross-entropies of these tokens, in nats; three numbers a token travel, and never the logits.

    Targets of −100 do not count.
    """
    head = rank.weights["embedding.weight" if rank.config.tied else "head.weight"]
    (logits,) = column_parallel(x, [head], rank.tp)
    largest = logits.detach().max(-1).values
    rank.tp.all_reduce(largest, MAX)
    scores = logits - largest[..., None]
    place = targets - rank.at["tp"] * len(head)
    here = (place >= 0) & (place < len(head))
    chosen = scores.gather(-1, place.where(here, 0)[..., None]).squeeze(-1) * here
    total, wanted = SumOut.apply(torch.stack([scores.exp().sum(-1), chosen]), rank.tp)
    return ((total.log() - wanted) * (targets >= 0)).sum()


# --- 3. cp: keys and values visit every rank of a ring


class PassOn(Function):
    """A block moves to the next rank while the previous rank's block arrives; backward, gradients move the other way."""

    @staticmethod
    def forward(ctx: Any, block: Tensor, cp: Comm) -> Tensor:
        ctx.cp = cp
        return _shift(cp, block, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _shift(ctx.cp, grad, -1), None


def _shift(ring: Comm, block: Tensor, by: int) -> Tensor:
    arrives = torch.empty_like(block, memory_format=torch.contiguous_format)
    swap(ring, block.contiguous(), (ring.rank + by) % ring.size, arrives, (ring.rank - by) % ring.size)
    return arrives


class Part(NamedTuple):
    """The attention of some queries to some of the keys."""

    out: Tensor
    log_sum: Tensor  # the logarithm of the sum of exp(score), the softmax's denominator


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Part:
    """q (B, heads, queries, D) to k and v (B, kv_heads, keys, D) alone; without `visible`, every query sees every key."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)
    scores = scores if visible is None else scores.masked_fill(~visible, -torch.inf)
    log_sum = scores.logsumexp(-1, keepdim=True)
    return Part((scores - log_sum).exp() @ v, log_sum)


def merge(a: Part, b: Part) -> Part:
    """The attention to the keys of both: an average of the outputs, weighted by the parts of the denominator."""
    log_sum = torch.logaddexp(a.log_sum, b.log_sum)
    return Part(a.out * (a.log_sum - log_sum).exp() + b.out * (b.log_sum - log_sum).exp(), log_sum)


def ring_attention(cp: Comm, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of this rank's tokens to those of all cp ranks. With the zig-zag, all ranks compute alike."""
    tokens, half, block = q.shape[2], q.shape[2] // 2, torch.stack([k, v])
    seen = attend(q, k, v, torch.ones(tokens, tokens, dtype=torch.bool).tril())
    for step in range(1, cp.size):
        block = PassOn.apply(block, cp)
        if (cp.rank - step) % cp.size < cp.rank:  # from a lower rank: its early block is before all my tokens, its late one after
            seen = merge(seen, attend(q, *block[..., :half, :]))
        else:  # from a higher rank: both of its blocks lie between my early and my late one
            late = merge(Part(*(t[..., half:, :] for t in seen)), attend(q[..., half:, :], *block))
            seen = Part(*(torch.cat([mine[..., :half, :], new], -2) for mine, new in zip(seen, late, strict=True)))
    return seen.out


# --- 4. pp: the blocks of one stage, and the order of micro-batches


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm of each token's vector, which every tp rank has whole."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def block(rank: Rank, layer: int, x_BSH: Tensor) -> Tensor:
    """One layer of the transformer, on this rank's tokens, heads and columns of the MLP."""

    def w(name: str) -> Tensor:
        return rank.weights[f"blocks.{layer}.{name}.weight"]

    attention = [w("attention.wq"), w("attention.wk"), w("attention.wv")]
    q, k, v = column_parallel(norm(x_BSH, w("norm1")), attention, rank.tp)
    q, k, v = (t.unflatten(-1, (-1, rank.config.head_dim)) for t in (q, k, v))
    q, k, v = (t.transpose(1, 2) for t in (rotate(q, *rank.angles), rotate(k, *rank.angles), v))
    out = again(partial(ring_attention, rank.cp), q, k, v)  # for the backward pass, keys travel again and are not kept
    x_BSH = x_BSH + row_parallel(out.transpose(1, 2).flatten(2), w("attention.wo"), rank.tp)
    wide = [w("mlp.gate"), w("mlp.up")] if rank.config.gated else [w("mlp.up")]
    *gate, up = column_parallel(norm(x_BSH, w("norm2")), wide, rank.tp)
    inner = F.silu(gate[0]) * up if gate else F.gelu(up)
    return x_BSH + row_parallel(inner, w("mlp.down"), rank.tp)


def forward_backward(rank: Rank, tokens: Sequence[Tensor], targets: Sequence[Tensor], count: int) -> Tensor:
    """All micro-batches through this rank's stage, in the order of 1F1B; gradients of the mean loss over `count` tokens.

    Returns this rank's share of that mean: on the last stage the loss of its own tokens divided by `count`, elsewhere zero.
    """
    pp, last = rank.pp, rank.pp.size - 1
    layers = rank.config.layers // pp.size
    total, sending = torch.zeros((), dtype=torch.float64), []
    kept: dict[int, tuple[Tensor, Tensor]] = {}  # a micro-batch's input and output, from its forward to its backward
    like = rank.weights[f"blocks.{pp.rank * layers}.norm1.weight"]

    def receive(source: int, microbatch: int) -> Tensor:
        activation = like.new_empty(*tokens[microbatch].shape, rank.config.hidden)
        pp.recv(activation, source)
        return activation

    for op in one_f_one_b(pp.size, len(tokens)).rows[pp.rank]:
        i = op.microbatch
        if op.kind == "F":
            x = embed(rank, tokens[i]) if pp.rank == 0 else receive(pp.rank - 1, i).requires_grad_()
            out = x
            for layer in range(pp.rank * layers, (pp.rank + 1) * layers):
                out = block(rank, layer, out)
            if pp.rank == last:
                out = loss_sum(rank, norm(out, rank.weights["norm.weight"]), targets[i]) / count
                total += out.detach()
            else:
                sending.append(pp.isend(out.detach(), pp.rank + 1))  # not awaited here, so that no two ranks wait in a circle
            kept[i] = x, out
        else:
            x, out = kept.pop(i)
            out.backward(None if pp.rank == last else receive(pp.rank + 1, i))
            if pp.rank > 0:
                sending.append(pp.isend(x.grad, pp.rank - 1))
    for work in sending:
        work.wait()
    return total


# --- 5. dp × cp: gradients of all tokens; their norm; the update


def add_gradients(rank: Rank) -> None:
    """Sum gradients over the ranks with the same weights and other tokens: one all-reduce over dp and cp together.

    Every loss was divided by the tokens of all ranks, so the sum is the gradient of the mean over all tokens.
    """
    if rank.config.tied and rank.pp.size > 1 and "embedding.weight" in rank.weights:
        grad, other_end = rank.weights["embedding.weight"].grad, rank.pp.size - 1 - rank.pp.rank
        arrives = torch.empty_like(grad)  # the matrix is used on two stages, so its gradient is a sum of two
        swap(rank.pp, grad, other_end, arrives, other_end)
        grad += arrives
    grads = [weight.grad for weight in rank.weights.values()]
    flat = torch.cat([grad.flatten() for grad in grads])
    rank.replicas.all_reduce(flat)
    for grad, total in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(total.view_as(grad))


def clip(rank: Rank, most: float) -> float:
    """Scale all gradients so that the norm of the whole model's is at most `most`; returns the norm before.

    Every number counts once. Stages and parts of matrices differ, so squares are summed over pp and tp; replicas are equal,
    so not over dp and cp. A norm's weights are on all tp ranks, and a tied embedding on two stages.
    """
    total = torch.zeros(1, dtype=torch.float64)
    for name, weight in rank.weights.items():
        if min(stages_of(name, rank.config, rank.pp.size)) == rank.pp.rank:
            copies = rank.tp.size if cut_along(name) is None else 1
            total += weight.grad.double().square().sum() / copies
    rank.tp.all_reduce(total)
    rank.pp.all_reduce(total)
    length = total.sqrt().item()
    if length > most:
        for weight in rank.weights.values():
            weight.grad *= most / length
    return length


@torch.no_grad()
def update(rank: Rank, moments: dict[str, tuple[Tensor, Tensor]], step: int, job: Job) -> None:
    """AdamW treats every number by itself, so each rank updates its own part; equal copies stay equal."""
    for name, weight in rank.weights.items():
        new, *moments[name] = adamw_update(
            weight, weight.grad, *moments[name], step, job.lr, weight_decay=job.weight_decay
        )
        weight.copy_(new)


# --- 6. Training


@dataclass(frozen=True, slots=True)
class Trained:
    """What one rank has in the end: losses (mean over all tokens) and norms of every step, and its part of the model."""

    at: Mapping[str, int]
    losses: list[float]
    norms: list[float]  # before clipping
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]  # of the last step, after clipping


def train(comm: Comm, sizes: Mapping[str, int], job: Job) -> Trained:
    """The program of every rank. `sizes` has the ranks along each axis; an axis that it lacks has one."""
    rank = set_up(comm, sizes, job)
    moments = {name: (torch.zeros_like(each), torch.zeros_like(each)) for name, each in rank.weights.items()}
    losses, norms = [], []
    for step in range(job.steps):
        for weight in rank.weights.values():
            weight.grad = None
        loss = forward_backward(rank, *own_batch(rank, job, step))
        add_gradients(rank)
        norms.append(clip(rank, job.max_norm))
        update(rank, moments, step + 1, job)
        rank.pp.all_reduce(loss)  # only the last stage has a loss
        rank.replicas.all_reduce(loss)
        losses.append(loss.item())
    weights = {name: each.detach() for name, each in rank.weights.items()}
    return Trained(rank.at, losses, norms, weights, {name: each.grad for name, each in rank.weights.items()})


def own_batch(rank: Rank, job: Job, step: int) -> tuple[Sequence[Tensor], Sequence[Tensor], int]:
    """Tokens and targets of this rank's micro-batches: dp cuts the rows of the batch, cp its columns; and the tokens of all ranks."""
    rows = (each.chunk(rank.size["dp"])[rank.at["dp"]] for each in job.batch(step, job.sequences, job.config.seq_len))
    tokens, targets = (each[:, rank.tokens] for each in rows)
    count = (targets >= 0).sum()
    rank.replicas.all_reduce(count)
    return tokens.chunk(job.microbatches), targets.chunk(job.microbatches), int(count)


def put_together(ranks: Sequence[Trained], kind: str = "weights") -> dict[str, Tensor]:
    """The whole model's weights or gradients from the parts of all ranks."""
    parts: dict[str, dict[int, Tensor]] = {}
    for mine in ranks:
        for name, part in getattr(mine, kind).items():
            parts.setdefault(name, {})[mine.at["tp"]] = part
    cuts = {name: cut_along(name) for name in parts}
    return {
        name: found[0] if cuts[name] is None else torch.cat([found[at] for at in sorted(found)], cuts[name])
        for name, found in parts.items()
    }
