"""The transformer on several ranks: the same class, whose matrices are this rank's parts."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cluster import MAX, Comm
from course_lib.model.transformer import MLP, Attention, Config, Transformer, rotary_tables
from course_lib.parallel.tensor import gradients
from course_lib.parallel.tensor.autograd_collectives import gather, split
from course_lib.parallel.tensor.linear import ColumnParallelLinear, RowParallelLinear
from course_lib.parallel.tensor.partition import Piece, plan
from course_lib.parallel.tensor.rng import OwnDropout, inside
from course_lib.parallel.tensor.vocabulary import VocabParallelEmbedding, cross_entropy


class _Columns(nn.Module):
    """Some columns of a packed matrix's output, in the place of the matrix that computes them in the whole model."""

    def __init__(self, start: int, width: int) -> None:
        super().__init__()
        self.start, self.width = start, width

    def forward(self, packed: Tensor) -> Tensor:
        return packed.narrow(-1, self.start, self.width)


class ParallelAttention(Attention):
    """This rank's heads: one packed product, attention as usual, and one product whose results are summed over
    ranks."""

    def __init__(
        self, config: Config, qkv: ColumnParallelLinear, wo: RowParallelLinear, widths: tuple[int, int, int]
    ) -> None:
        with torch.device("meta"):
            super().__init__(config)
        if config.positions == "rotary":
            self.cos, self.sin = (
                table.to(qkv.weight.dtype) for table in rotary_tables(config.seq_len, config.head_dim)
            )
        self.qkv, self.wo = qkv, wo
        starts = (0, widths[0], widths[0] + widths[1])
        self.wq, self.wk, self.wv = map(_Columns, starts, widths)

    def forward(self, x_BSH: Tensor) -> Tensor:
        own = inside(self.qkv.comm) if self.training and self.config.dropout else nullcontext()
        packed = self.qkv(x_BSH)
        with own:
            return super().forward(packed)


class ParallelMLP(MLP):
    """This rank's columns of the MLP: one packed product, and one product whose results are summed over ranks."""

    def __init__(self, config: Config, wide: ColumnParallelLinear, down: RowParallelLinear, width: int) -> None:
        with torch.device("meta"):
            super().__init__(config)
        self.wide, self.down = wide, down
        if config.gated:
            self.gate = _Columns(0, width)
        self.up = _Columns(width if config.gated else 0, width)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.wide(x))


class _WholeHead(nn.Linear):
    """A head that every rank holds whole, for tokens that are split over ranks."""

    def __init__(self, comm: Comm, weight: nn.Parameter) -> None:
        super().__init__(weight.shape[1], weight.shape[0], bias=False, device="meta")
        self.comm, self.weight = comm, weight

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(gather(x, self.comm))


class TensorParallel(Transformer):
    """A rank's part of a Transformer: `model.loss(model(tokens), targets).backward()`, then `model.finish()`.

    All ranks give the same tokens. Logits are this rank's columns, (B, S, V / ranks), or all of them without
    `vocab_parallel`; with `sequence_parallel` each rank holds its S / ranks tokens between the blocks' products.
    Made by `build` or `parallelize`; made directly, its weights are not set. `pieces` says what each parameter is of.
    """

    pieces: dict[str, tuple[Piece, ...]]

    def __init__(
        self,
        config: Config,
        comm: Comm,
        sequence_parallel: bool = False,
        vocab_parallel: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        pieces = plan(config, comm.size, comm.rank, sequence_parallel, vocab_parallel)
        with torch.device("meta"), torch.random.fork_rng(devices=[]):
            super().__init__(config)
        self.comm, self.pieces = comm, pieces
        self.sequence_parallel, self.vocab_parallel = sequence_parallel, vocab_parallel
        self._room(dtype)

    def _room(self, dtype: torch.dtype) -> None:
        """Replace every part by this rank's, with memory for its weights."""
        memory = {
            name: torch.empty((sum(piece.local_shape[0] for piece in held), *held[0].local_shape[1:]), dtype=dtype)
            for name, held in self.pieces.items()
        }
        self._ends(memory)
        self.norm.weight = nn.Parameter(memory["norm.weight"])
        for index, block in enumerate(self.blocks):
            at = f"blocks.{index}."
            for norm in ("norm1", "norm2"):
                getattr(block, norm).weight = nn.Parameter(memory[f"{at}{norm}.weight"])
            q, k, v = (piece.local_shape[0] for piece in self.pieces[f"{at}attention.qkv.weight"])
            block.attention = ParallelAttention(
                self.config,
                self._columns(memory, f"{at}attention.qkv"),
                self._rows(memory, f"{at}attention.wo"),
                (q, k, v),
            )
            width = self.pieces[f"{at}mlp.wide.weight"][0].local_shape[0]
            block.mlp = ParallelMLP(
                self.config, self._columns(memory, f"{at}mlp.wide"), self._rows(memory, f"{at}mlp.down"), width
            )
            if self.sequence_parallel:
                block.dropout = OwnDropout(self.comm, self.config.dropout)

    def _columns(self, memory: dict[str, Tensor], name: str) -> ColumnParallelLinear:
        return ColumnParallelLinear(
            self.comm, memory[f"{name}.weight"], memory.get(f"{name}.bias"), sequence=self.sequence_parallel
        )

    def _rows(self, memory: dict[str, Tensor], name: str) -> RowParallelLinear:
        return RowParallelLinear(
            self.comm, memory[f"{name}.weight"], memory.get(f"{name}.bias"), sequence=self.sequence_parallel
        )

    def _ends(self, memory: dict[str, Tensor]) -> None:
        """Embedding, positions and head."""
        table = nn.Parameter(memory["embedding.weight"])
        top = table if self.config.tied else nn.Parameter(memory["head.weight"])
        if self.config.positions == "learned":
            self.positions.weight = nn.Parameter(memory["positions.weight"])
        if self.vocab_parallel:
            sequence = self.sequence_parallel
            self.add_module("embedding", VocabParallelEmbedding(self.comm, table, self.config.vocab, sequence=sequence))
            self.add_module("head", ColumnParallelLinear(self.comm, top, sequence=sequence))
            return
        self.embedding.weight, self.head.weight = table, top
        if self.sequence_parallel:
            self.head = _WholeHead(self.comm, top)

    def fill(self, wholes: Iterable[tuple[str, Tensor]]) -> None:
        """Copy this rank's pieces of the whole model's parameters into this model."""
        parameters = dict(self.named_parameters())
        places = {
            piece.name: (parameters[name].data, offset, piece)
            for name, held in self.pieces.items()
            for offset, piece in stacked(held)
        }
        for name, whole in wholes:
            own, offset, piece = places[name]
            own.narrow(0, offset, piece.local_shape[0]).copy_(piece.of(whole.detach()))

    def embed(self, tokens_BS: Tensor) -> Tensor:
        """The vectors that the first block reads, (B, S, H), or this rank's (B, S / ranks, H)."""
        if not self.sequence_parallel:
            return super().embed(tokens_BS)
        seq = tokens_BS.shape[1]
        if seq > self.config.seq_len or seq % self.comm.size:
            raise ValueError(
                f"A sequence of {seq} tokens: with sequence_parallel it must be a multiple of the {self.comm.size} "
                f"ranks, and no longer than the model's seq_len={self.config.seq_len}."
            )
        x_BSH = self.embedding(tokens_BS) if self.vocab_parallel else split(self.embedding(tokens_BS), self.comm)
        if self.config.positions == "learned":
            x_BSH = x_BSH + self.positions.weight[:seq].chunk(self.comm.size)[self.comm.rank]
        return x_BSH

    def loss(self, logits: Tensor, targets_BS: Tensor) -> Tensor:
        """Mean cross-entropy of the targets in nats per token, the same on every rank; in fp32 at least."""
        if self.vocab_parallel:
            return cross_entropy(self.comm, logits, targets_BS, self.config.vocab)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(wide.flatten(0, 1), targets_BS.flatten())

    def finish(self) -> None:
        """Sum the gradients of which ranks hold only parts: once, between the last backward pass and the optimizer's
        step."""
        gradients.finish(self)


def stacked(held: Iterable[Piece]) -> Iterator[tuple[int, Piece]]:
    """Pieces with the row at which each starts in the parameter that stacks them."""
    offset = 0
    for piece in held:
        yield offset, piece
        offset += piece.local_shape[0]


def parallelize(
    model: Transformer, comm: Comm, sequence_parallel: bool = False, vocab_parallel: bool = True
) -> TensorParallel:
    """This rank's part of a whole model, copied: drop the whole afterwards. Frozen parameters stay frozen, tied ones
    tied.

    Every rank gives the same model; ValueError otherwise, on all ranks. `build` never holds the whole.
    """
    if not isinstance(model, Transformer) or isinstance(model, TensorParallel):
        raise ValueError(
            f"parallelize takes a whole course_lib.model.transformer.Transformer, not {type(model).__name__}."
        )
    given = dict(model.named_parameters())
    frozen = {name: not each.requires_grad for name, each in given.items()}
    part = TensorParallel(model.config, comm, sequence_parallel, vocab_parallel, next(iter(given.values())).dtype)
    mark = zlib.crc32(repr((model.config, frozen, sequence_parallel, vocab_parallel)).encode())
    for each in given.values():
        mark = zlib.crc32(each.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy().data, mark)
    _alike(comm, mark, "parallelize: the model, its weights or the options")
    part.fill(given.items())
    for name, parameter in part.named_parameters():
        flags = {frozen[piece.name] for piece in part.pieces[name]}
        if len(flags) > 1:
            names = ", ".join(piece.name for piece in part.pieces[name])
            raise ValueError(
                f"{names} are packed in one matrix, and some of them are frozen; freeze all of them, or none."
            )
        parameter.requires_grad_(not flags.pop())
    return part.train(model.training)


def build(
    config: Config, comm: Comm, seed: int = 0, sequence_parallel: bool = False, vocab_parallel: bool = True
) -> TensorParallel:
    """This rank's part of `transformer.build(config, seed)`, to the bit, for any number of ranks.

    Every rank draws every matrix, one at a time, and keeps its piece: at no moment is there more of the whole.
    """
    part = TensorParallel(config, comm, sequence_parallel, vocab_parallel)
    _alike(
        comm,
        zlib.crc32(repr((config, seed, sequence_parallel, vocab_parallel)).encode()),
        "build: config, seed or options",
    )
    part.fill(_drawn(config, seed))
    return part


def _drawn(config: Config, seed: int) -> Iterator[tuple[str, Tensor]]:
    """The parameters of `transformer.build(config, seed)`, one at a time."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        shapes = {name: each.shape for name, each in Transformer(config).named_parameters()}
    coin = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        if len(shape) == 2:
            width = shape[-1] * (2 * config.layers if name.endswith(("wo.weight", "down.weight")) else 1)
            yield name, nn.init.normal_(torch.empty(shape), std=width**-0.5, generator=coin)
        else:
            yield name, torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)


def _alike(comm: Comm, mark: int, what: str) -> None:
    """ValueError on every rank unless all have the same mark."""
    marks = torch.tensor([mark, -mark])
    comm.all_reduce(marks, op=MAX)
    if marks[0] != -marks[1]:
        raise ValueError(
            f"{what} differ between ranks; all must give the same: parts of different models do not form one."
        )
