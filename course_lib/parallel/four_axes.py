"""One transformer trained on four axes, dp × pp × cp × tp, in one file to be read from top to bottom.

    run = simulate(train, 16, ({"dp": 2, "pp": 2, "cp": 2, "tp": 2}, Job()))  # `launch`: the same on real processes
    run.results[0].losses                                                      # those of the whole model on one process

Every rank runs `train`, the last function. Each axis divides one thing and sends another:

    axis  a rank has                   what it sends                                             chapter
    tp    columns or rows of matrices  activations: two all-reduces in a layer, and two back     09
    cp    tokens of each sequence      keys and values around a ring, and their gradients back   11
    pp    consecutive layers           each micro-batch's activations, and their gradient back   10
    dp    sequences of the batch       gradients, once a step, to all ranks of dp × cp           07

Speed is left to the chapters: nothing here overlaps, and there is no sequence parallelism and no sharded state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from course_lib.cluster import MAX, Comm
from course_lib.cluster.collectives import swap
from course_lib.model import modules, text, transformer
from course_lib.model.optimizer import adamw_update
from course_lib.model.transformer import Config, again, rotary_tables, rotate
from course_lib.parallel.mesh import Mesh
from course_lib.parallel.schedules import one_f_one_b

AXES = ("dp", "pp", "cp", "tp")  # slowest first: ranks that differ in tp alone are consecutive


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is trained. The same job gives the same losses, gradients and weights on every mesh."""

    config: Config = Config(layers=2, hidden=16, heads=4, kv_heads=2, seq_len=16)
    sequences: int = 8  # of a step, on all replicas together
    microbatches: int = 2  # into which each replica divides its sequences
    steps: int = 3
    lr: float = 3e-3
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
    weights: dict[str, Tensor]  # its parts, by their names in the whole model


def set_up(comm: Comm, sizes: Mapping[str, int], job: Job) -> Rank:
    """This rank's coordinates, groups and weights. ValueError if the axes do not divide the job."""
    if unknown := [axis for axis in sizes if axis not in AXES]:
        raise ValueError(f"There is no axis {unknown[0]!r} here; the axes are {', '.join(AXES)}.")
    mesh = Mesh({axis: sizes.get(axis, 1) for axis in AXES})
    if mesh.size != comm.size:
        raise ValueError(f"{mesh} has {mesh.size} ranks, and {comm.size} run this program.")
    check(mesh.sizes, job)
    tp, cp, pp, replicas = (_group(comm, mesh, *axes) for axes in (("tp",), ("cp",), ("pp",), ("dp", "cp")))
    at = mesh.coordinates(comm.rank)
    tokens = own_tokens(job.config.seq_len, mesh.sizes["cp"], at["cp"])
    cos, sin = (table[tokens].to(job.dtype) for table in rotary_tables(job.config.seq_len, job.config.head_dim))
    return Rank(job.config, at, mesh.sizes, tp, cp, pp, replicas, tokens, (cos, sin), own_weights(job, mesh.sizes, at))


def _group(comm: Comm, mesh: Mesh, *axes: str) -> Comm:
    """This rank's group along these axes. Every rank makes every group, in the same order, as torch demands."""
    made = [(comm.rank in ranks, comm.new_group(ranks)) for ranks in mesh.groups(*axes)]
    return next(group for inside, group in made if inside)


def check(size: Mapping[str, int], job: Job) -> None:
    """ValueError if an axis does not divide what it cuts, or if the model has a part that this file leaves out."""
    one, tp = job.config, size["tp"]
    needs = {  # (axis, what it divides) -> (how many there are, of what they must be a multiple)
        ("dp", f"sequences for {job.microbatches} micro-batches"): (job.sequences, size["dp"] * job.microbatches),
        ("pp", "layers"): (one.layers, size["pp"]),
        ("cp", "tokens in a sequence, two blocks a rank"): (one.seq_len, 2 * size["cp"]),
        ("tp", "heads"): (one.heads, tp),
        ("tp", "key-value heads"): (one.kv_heads or 0, tp),
        ("tp", "columns of the MLP"): (one.ffn or 0, tp),
        ("tp", "tokens in the vocabulary"): (one.vocab, tp),
    }
    for (axis, what), (count, unit) in needs.items():
        if count % unit:
            raise ValueError(f"{axis}={size[axis]} needs a multiple of {unit} {what}; there are {count}.")
    if one != replace(one, gated=True, tied=False, biases=False, dropout=0.0, checkpointing="none", positions="rotary"):
        raise ValueError(
            f"Tied, biases, dropout, checkpointing, plain MLP and learned positions are left out here: {one}."
        )


def stage_of(name: str, config: Config, stages: int) -> int:
    """The pipeline stage that holds a parameter."""
    if name.startswith("blocks."):
        return int(name.split(".")[1]) * stages // config.layers
    return 0 if name == "embedding.weight" else stages - 1


CUT = {  # `F.linear` wants a matrix as (outputs, inputs)
    **dict.fromkeys(("wq", "wk", "wv", "gate", "up"), 0),  # outputs: heads, or columns of the MLP
    **dict.fromkeys(("wo", "down"), 1),  # inputs, which are the outputs of those above
    **dict.fromkeys(("embedding", "head"), 0),  # tokens of the vocabulary
}


def cut_along(name: str) -> int | None:
    """The dimension along which tp cuts a parameter; None for norms, which every tp rank holds whole."""
    return CUT.get(name.split(".")[-2])


def own_weights(job: Job, size: Mapping[str, int], at: Mapping[str, int]) -> dict[str, Tensor]:
    """This rank's part of the model that one process would start with. (A large model would be drawn part by part.)"""
    mine = {}
    for name, whole in transformer.build(job.config, job.seed).to(job.dtype).named_parameters():
        if at["pp"] == stage_of(name, job.config, size["pp"]):
            dim = cut_along(name)
            part = whole if dim is None else whole.chunk(size["tp"], dim)[at["tp"]]
            mine[name] = part.detach().clone().requires_grad_()
    return mine


def own_tokens(seq_len: int, ranks: int, rank: int) -> Tensor:
    """The zig-zag: block `rank` of 2·`ranks` blocks and its mirror image, an early block and a late one."""
    blocks = torch.arange(seq_len).chunk(2 * ranks)
    return torch.cat([blocks[rank], blocks[-1 - rank]])


# --- 2. tp: two products, one all-reduce forward and one backward


class Conjugate(Function):
    """What moves a tensor forward, and the transposed of it, which moves the gradient backward."""

    @staticmethod
    def forward(ctx, x: Tensor, move: Callable, move_back: Callable) -> Tensor:
        ctx.move_back = move_back
        return move(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.move_back(grad), None, None


def unchanged(x: Tensor) -> Tensor:
    """`x` itself."""
    return x.view_as(x)


def summed(group: Comm, x: Tensor) -> Tensor:
    """The sum of all ranks' tensors, on every rank."""
    total = x.clone(memory_format=torch.contiguous_format)
    group.all_reduce(total)
    return total


def copy_in(x: Tensor, tp: Comm) -> Tensor:
    """The way into a region where tp ranks differ: every rank's use of `x` adds to its gradient."""
    return Conjugate.apply(x, unchanged, partial(summed, tp))


def sum_out(part: Tensor, tp: Comm) -> Tensor:
    """The way out: every rank has one term of a sum, and all of them get the sum and its gradient."""
    return Conjugate.apply(part, partial(summed, tp), unchanged)


def column_parallel(x: Tensor, weights: Sequence[Tensor], tp: Comm) -> list[Tensor]:
    """This rank's outputs of several matrices with the same input, which every rank has whole."""
    x = copy_in(x, tp)
    return [F.linear(x, weight) for weight in weights]


def row_parallel(part: Tensor, weight: Tensor, tp: Comm) -> Tensor:
    """All outputs on every rank, from this rank's inputs: each rank computes one term of a sum."""
    return sum_out(F.linear(part, weight), tp)


def embed(rank: Rank, tokens: Tensor) -> Tensor:
    """Vectors of tokens: each tp rank looks up those that are in its rows, and gives zeros for the others."""
    table = rank.weights["embedding.weight"]
    place = tokens - rank.at["tp"] * len(table)
    elsewhere = (place < 0) | (place >= len(table))
    return sum_out(F.embedding(place.masked_fill(elsewhere, 0), table).masked_fill(elsewhere[..., None], 0), rank.tp)


def loss_sum(rank: Rank, x: Tensor, targets: Tensor) -> Tensor:
    """The sum of cross-entropies in nats, without targets of −100. Three numbers a token travel, never the logits."""
    (logits,) = column_parallel(x, [rank.weights["head.weight"]], rank.tp)
    largest = logits.detach().max(-1).values
    rank.tp.all_reduce(largest, MAX)
    scores = logits - largest[..., None]
    place = targets - rank.at["tp"] * logits.shape[-1]
    here = (place >= 0) & (place < logits.shape[-1])
    chosen = scores.gather(-1, place.where(here, 0)[..., None]).squeeze(-1) * here
    total, wanted = sum_out(torch.stack([scores.exp().sum(-1), chosen]), rank.tp)
    return ((total.log() - wanted) * (targets >= 0)).sum()


# --- 3. cp: keys and values visit every rank of a ring


def shifted(ring: Comm, by: int, x: Tensor) -> Tensor:
    """The tensor of the rank that is `by` places back; this rank's own goes as many places ahead."""
    arrives = torch.empty_like(x, memory_format=torch.contiguous_format)
    swap(ring, x.contiguous(), (ring.rank + by) % ring.size, arrives, (ring.rank - by) % ring.size)
    return arrives


def pass_on(kv: Tensor, cp: Comm) -> Tensor:
    """Keys and values move to the next rank while the previous rank's arrive; their gradients move the other way."""
    return Conjugate.apply(kv, partial(shifted, cp, 1), partial(shifted, cp, -1))


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Attention of q (B, heads, queries, D) to these keys alone, and the logarithm of its softmax's denominator."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    scores = q * q.shape[-1] ** -0.5 @ k.transpose(-2, -1)
    if causal:
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
    log_sum = scores.logsumexp(-1, keepdim=True)
    return (scores - log_sum).exp() @ v, log_sum


def merge(out: Tensor, log_sum: Tensor, more: Tensor, more_log_sum: Tensor) -> tuple[Tensor, Tensor]:
    """The attention to the keys of two parts: outputs are averaged, weighted by the denominators."""
    total = torch.logaddexp(log_sum, more_log_sum)
    return out * (log_sum - total).exp() + more * (more_log_sum - total).exp(), total


def ring_attention(cp: Comm, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of this rank's tokens to those of all cp ranks. Thanks to the zig-zag, all compute alike."""
    half, kv = q.shape[2] // 2, torch.stack([k, v])
    out, log_sum = attend(q, k, v, causal=True)
    for step in range(1, cp.size):
        kv = pass_on(kv, cp)  # now those of rank cp.rank - step
        if step <= cp.rank:  # their early half precedes all tokens of this rank, their late half follows them
            out, log_sum = merge(out, log_sum, *attend(q, *kv[..., :half, :]))
        else:  # from a higher rank: all of them lie between the two halves of this rank's tokens
            late = merge(out[..., half:, :], log_sum[..., half:, :], *attend(q[..., half:, :], *kv))
            out, log_sum = (torch.cat([t[..., :half, :], new], 2) for t, new in zip((out, log_sum), late, strict=True))
    return out


# --- 4. pp: the blocks of one stage, and the order of micro-batches


def norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm of each token's vector, which every tp rank has whole."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


def transformer_block(rank: Rank, layer: int, x_BSH: Tensor) -> Tensor:
    """One layer of the transformer, on this rank's tokens, heads and columns of the MLP."""

    def w(name: str) -> Tensor:
        return rank.weights[f"blocks.{layer}.{name}.weight"]

    attention = [w("attention.wq"), w("attention.wk"), w("attention.wv")]
    q, k, v = column_parallel(norm(x_BSH, w("norm1")), attention, rank.tp)
    q, k, v = (t.unflatten(-1, (-1, rank.config.head_dim)) for t in (q, k, v))
    q, k, v = (t.transpose(1, 2) for t in (rotate(q, *rank.angles), rotate(k, *rank.angles), v))
    out = again(partial(ring_attention, rank.cp), q, k, v)  # for the backward pass, keys travel again and are not kept
    x_BSH = x_BSH + row_parallel(out.transpose(1, 2).flatten(2), w("attention.wo"), rank.tp)
    gate, up = column_parallel(norm(x_BSH, w("norm2")), [w("mlp.gate"), w("mlp.up")], rank.tp)
    return x_BSH + row_parallel(F.silu(gate) * up, w("mlp.down"), rank.tp)


def forward_backward(rank: Rank, tokens: Sequence[Tensor], targets: Sequence[Tensor], count: int) -> Tensor:
    """All micro-batches through this stage, in 1F1B's order; returns this rank's part of the loss of `count` tokens."""
    pp, last, layers = rank.pp, rank.pp.size - 1, rank.config.layers // rank.pp.size
    total, sending = torch.zeros((), dtype=torch.float64), []
    kept: dict[int, tuple[Tensor, Tensor]] = {}  # a micro-batch's input and output, from its forward to its backward

    def receive(source: int) -> Tensor:
        activation = rank.angles[0].new_empty(*tokens[0].shape, rank.config.hidden)
        pp.recv(activation, source)
        return activation

    for op in one_f_one_b(pp.size, len(tokens)).rows[pp.rank]:
        i = op.microbatch
        if op.kind == "F":
            x = out = embed(rank, tokens[i]) if pp.rank == 0 else receive(pp.rank - 1).requires_grad_()
            for layer in range(pp.rank * layers, (pp.rank + 1) * layers):
                out = transformer_block(rank, layer, out)
            if pp.rank == last:
                out = loss_sum(rank, norm(out, rank.weights["norm.weight"]), targets[i]) / count
                total += out.detach()
            else:
                sending.append(pp.isend(out.detach(), pp.rank + 1))
            kept[i] = x, out
        else:
            x, out = kept.pop(i)
            out.backward(None if pp.rank == last else receive(pp.rank + 1))
            if pp.rank > 0:
                sending.append(pp.isend(modules.gradient(x), pp.rank - 1))
    for work in sending:  # not earlier: two stages that send to each other would wait in a cycle
        work.wait()
    return total


# --- 5. dp × cp: gradients of all tokens; their norm; the update


def add_gradients(rank: Rank) -> None:
    """Sum gradients over dp and cp together: losses are divided by the tokens of all ranks, so this makes the mean."""
    grads = [modules.gradient(weight) for weight in rank.weights.values()]
    flat = torch.cat([grad.flatten() for grad in grads])
    rank.replicas.all_reduce(flat)
    for grad, total in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(total.view_as(grad))


def clip(rank: Rank, most: float) -> float:
    """Scale all gradients so that the norm of the whole model's is at most `most`; returns the norm before.

    Every number counts once: sum squares over tp and pp, which divide the model, not over dp and cp, which copy it.
    """
    total = torch.zeros(1, dtype=torch.float64)
    for name, weight in rank.weights.items():
        copies = rank.tp.size if cut_along(name) is None else 1  # all tp ranks hold the norms' weights
        total += modules.gradient(weight).double().square().sum() / copies
    rank.tp.all_reduce(total)
    rank.pp.all_reduce(total)
    length = total.sqrt().item()
    for weight in rank.weights.values():
        modules.gradient(weight).mul_(most / max(most, length))
    return length


@torch.no_grad()
def update(rank: Rank, moments: dict[str, tuple[Tensor, Tensor]], step: int, lr: float) -> None:
    """AdamW treats every number by itself, so each rank updates its own part; equal copies stay equal."""
    for name, weight in rank.weights.items():
        new, mean, square = adamw_update(weight, modules.gradient(weight), *moments[name], step, lr)
        moments[name] = mean, square
        weight.copy_(new)


# --- 6. Training


@dataclass(frozen=True, slots=True)
class Trained:
    """What a rank has in the end: losses and norms of every step, the same on all ranks, and its part of the model."""

    losses: list[float]
    norms: list[float]  # before clipping
    weights: dict[str, Tensor]
    gradients: dict[str, Tensor]  # of the last step, after clipping


def own_batch(rank: Rank, job: Job, step: int) -> tuple[Sequence[Tensor], Sequence[Tensor], int]:
    """Tokens and targets of this rank's micro-batches, and the targets of all ranks: dp cuts rows, cp columns."""
    rows = (each.chunk(rank.size["dp"])[rank.at["dp"]] for each in job.batch(step, job.sequences, job.config.seq_len))
    tokens, targets = (each[:, rank.tokens] for each in rows)
    count = (targets >= 0).sum()
    rank.replicas.all_reduce(count)
    return tokens.chunk(job.microbatches), targets.chunk(job.microbatches), int(count)


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
        update(rank, moments, step + 1, job.lr)
        rank.pp.all_reduce(loss)  # only the last stage has one
        rank.replicas.all_reduce(loss)
        losses.append(loss.item())
    gradients = {name: modules.gradient(weight) for name, weight in rank.weights.items()}
    return Trained(losses, norms, {name: weight.detach() for name, weight in rank.weights.items()}, gradients)
