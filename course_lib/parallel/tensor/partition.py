"""Which rank holds which rows or columns of every matrix of the model. No torch, and no data is moved."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from course_lib.estimate.units import require_whole

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from course_lib.model.transformer import Config

Whole = TypeVar("Whole", "Tensor", "np.ndarray")


@dataclass(frozen=True, slots=True)
class Piece:
    """What one rank holds of one parameter of the whole model."""

    name: str  # in the whole model
    shape: tuple[int, ...]  # in the whole model
    dim: int | None  # split along this dimension; None: whole
    start: int  # first row (or column) held
    stop: int  # one past the last
    copies: int = 1  # ranks that hold this same piece, a block of consecutive ones
    partial: bool = False  # each copy's gradient is one part of a sum

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the piece."""
        if self.dim is None:
            return self.shape
        return (*self.shape[: self.dim], self.stop - self.start, *self.shape[self.dim + 1 :])

    @property
    def numel(self) -> int:
        """How many numbers the piece has."""
        return math.prod(self.local_shape)

    def of(self, whole: Whole) -> Whole:
        """The piece of a tensor (or array) of the whole's shape: a view."""
        return whole if self.dim is None else whole[(slice(None),) * self.dim + (slice(self.start, self.stop),)]


def span(total: int, parts: int, index: int) -> tuple[int, int]:
    """First and one past the last of part `index`, if `total` items are split in order, the longer parts first."""
    small, larger = divmod(total, parts)
    start = index * small + min(index, larger)
    return start, start + small + (index < larger)


def check_split(config: "Config", ranks: int) -> None:
    """ValueError unless the model can be split over `ranks` ranks: each gets equally many whole heads and columns of
    the MLP."""
    require_whole("ranks", ranks)
    fits = [n for n in range(1, config.heads + 1) if not _obstacle(config, n)]
    if problem := _obstacle(config, ranks):
        raise ValueError(
            f"This model cannot be split over {ranks} ranks: {problem}. These numbers of ranks work: {fits}."
        )


def _obstacle(config: "Config", ranks: int) -> str:
    for name in ("heads", "ffn"):
        if (number := getattr(config, name)) % ranks:
            return f"{name}={number} is not a multiple of {ranks}"
    kv_heads = config.kv_heads or config.heads
    if kv_heads % ranks and ranks % kv_heads:
        return f"kv_heads={kv_heads} is neither a multiple nor a divisor of {ranks}"
    return f"vocab={config.vocab} leaves some rank without a token" if config.vocab < ranks else ""


def plan(
    config: "Config", ranks: int, rank: int, sequence_parallel: bool = False, vocab_parallel: bool = True
) -> dict[str, tuple[Piece, ...]]:
    """The pieces that form each parameter of rank `rank`, by its local name; several are stacked.

    `config` is a `transformer.Config` or has its attributes. A tied head is not listed: it is the embedding.
    """
    check_split(config, ranks)
    if type(rank) is not int or not 0 <= rank < ranks:
        raise ValueError(f"rank is {rank!r}; it must be an integer from 0 to {ranks - 1}.")
    return dict(_Cutter(config, ranks, rank, sequence_parallel, vocab_parallel).model())


Cut = Callable[[str, tuple[int, ...], int], Piece]  # what this rank holds: the name, the shape, and where it is cut


@dataclass(frozen=True, slots=True)
class _Cutter:
    config: "Config"
    ranks: int
    rank: int
    sequence: bool
    vocabulary: bool

    def model(self) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        c = self.config
        table = (c.vocab, c.hidden)
        cut_table = self.cut if self.vocabulary else self.whole
        yield "embedding.weight", (cut_table("embedding.weight", table, 0),)
        if c.positions == "learned":
            yield "positions.weight", (self.spread("positions.weight", (c.seq_len, c.hidden)),)
        for index in range(c.layers):
            yield from self.block(f"blocks.{index}.")
        yield "norm.weight", (self.spread("norm.weight", (c.hidden,)),)
        if not c.tied:
            yield "head.weight", (cut_table("head.weight", table, 0),)

    def block(self, at: str) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        c = self.config
        assert c.kv_heads and c.ffn  # a config fills them in
        narrow = c.kv_heads * c.head_dim
        yield f"{at}norm1.weight", (self.spread(f"{at}norm1.weight", (c.hidden,)),)
        queries = [(f"{at}attention.wq", c.hidden, self.cut)]
        yield from self.columns(
            f"{at}attention.qkv", [*queries, *((f"{at}attention.{w}", narrow, self.heads) for w in ("wk", "wv"))]
        )
        yield from self.rows(f"{at}attention.wo", c.hidden)
        yield f"{at}norm2.weight", (self.spread(f"{at}norm2.weight", (c.hidden,)),)
        names = ("gate", "up") if c.gated else ("up",)
        yield from self.columns(f"{at}mlp.wide", [(f"{at}mlp.{name}", c.ffn, self.cut) for name in names])
        yield from self.rows(f"{at}mlp.down", c.ffn)

    def columns(self, local: str, parts: Sequence[tuple[str, int, Cut]]) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        """Matrices whose outputs are split: the textbook's columns, which are the rows of `nn.Linear`'s weight."""
        yield (
            f"{local}.weight",
            tuple(cut(f"{name}.weight", (width, self.config.hidden), 0) for name, width, cut in parts),
        )
        if self.config.biases:
            yield f"{local}.bias", tuple(cut(f"{name}.bias", (width,), 0) for name, width, cut in parts)

    def rows(self, name: str, width: int) -> Iterator[tuple[str, tuple[Piece, ...]]]:
        """A matrix whose inputs are split; its bias is added once, to the sum."""
        yield f"{name}.weight", (self.cut(f"{name}.weight", (self.config.hidden, width), 1),)
        if self.config.biases:
            yield f"{name}.bias", (self.spread(f"{name}.bias", (self.config.hidden,)),)

    def cut(self, name: str, shape: tuple[int, ...], dim: int) -> Piece:
        return Piece(name, shape, dim, *span(shape[dim], self.ranks, self.rank))

    def whole(self, name: str, shape: tuple[int, ...], dim: int = 0) -> Piece:
        return Piece(name, shape, None, 0, shape[dim], self.ranks)

    def spread(self, name: str, shape: tuple[int, ...]) -> Piece:
        """Whole on every rank; under sequence parallelism, each rank's tokens give a part of its gradient."""
        return Piece(name, shape, None, 0, shape[0], self.ranks, self.sequence and self.ranks > 1)

    def heads(self, name: str, shape: tuple[int, ...], dim: int) -> Piece:
        """Rows of keys or values: whole heads; if there are fewer heads than ranks, several ranks hold one head."""
        kv_heads = self.config.kv_heads or self.config.heads
        if kv_heads >= self.ranks:
            return self.cut(name, shape, dim)
        copies = self.ranks // kv_heads
        return Piece(name, shape, dim, *span(shape[dim], kv_heads, self.rank // copies), copies, True)
