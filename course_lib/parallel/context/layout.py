"""Who has which tokens, who may see whom, and how much each rank has to compute.

A layout is a list with one tensor of global positions per rank, ascending, int64; every rank knows the whole list.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole

Positions = Sequence[Tensor]
Tile = tuple[slice, slice, Tensor | None]  # rows of queries, columns of keys, and which pairs are visible if not all


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Which keys a query sees, by global positions: earlier ones (`causal`), of its own document, at most `window`
    back.

    `documents` holds the document of every position of the whole sequence, (tokens,), int64. `window=1` is the token
    itself.
    """

    causal: bool = True
    documents: Tensor | None = None
    window: int | None = None

    def visible(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether each query sees each key: bool, (queries, keys), for their global positions."""
        apart = queries[:, None] - keys[None, :]
        seen = apart >= 0 if self.causal else torch.ones_like(apart, dtype=torch.bool)
        if self.window is not None:
            seen = seen & (apart < self.window) & (apart > -self.window)
        if self.documents is not None:
            seen = seen & (self.documents[queries][:, None] == self.documents[keys][None, :])
        return seen

    def tiles(self, queries: Tensor, keys: Tensor) -> Iterator[Tile]:
        """The tiles that must be computed: rows, columns, and their mask if not everything in them is visible.

        Queries and keys are cut where their positions jump; a tile without any visible pair is left out. So a zig-zag
        rank computes half of the tiles instead of masking half of their numbers.
        """
        for rows in runs(queries):
            for columns in runs(keys):
                seen = self.visible(queries[rows], keys[columns])
                if seen.any():
                    yield rows, columns, None if seen.all() else seen


CAUSAL, FULL = Mask(), Mask(causal=False)


def runs(positions: Tensor) -> list[slice]:
    """Slices of consecutive positions. A single run is cut in the middle, as two neighboring blocks of a zig-zag are; a
    striped layout, whose positions are never consecutive, is one slice.
    """
    if len(positions) < 2:
        return [slice(0, len(positions))] if len(positions) else []
    jumps = (positions.diff() != 1).nonzero().flatten().add(1).tolist()
    if len(jumps) == len(positions) - 1:
        return [slice(0, len(positions))]
    jumps = jumps or [(len(positions) + 1) // 2]
    return [slice(start, end) for start, end in zip([0, *jumps], [*jumps, len(positions)], strict=True)]


# --- layouts


def contiguous(length: int, ranks: int) -> list[Tensor]:
    """Consecutive tokens, cut as `torch.tensor_split` does: the first ranks have one more if they do not divide."""
    return list(torch.arange(_tokens(length)).tensor_split(_ranks(ranks)))


def zig_zag(length: int, ranks: int) -> list[Tensor]:
    """Block r and block 2N − 1 − r of 2N on rank r: a cheap early block and an expensive late one."""
    blocks = torch.arange(_tokens(length)).tensor_split(2 * _ranks(ranks))
    return [torch.cat([blocks[rank], blocks[-1 - rank]]) for rank in range(ranks)]


def striped(length: int, ranks: int) -> list[Tensor]:
    """Every N-th token. Brandon et al., "Striped attention" (2023)."""
    everything = torch.arange(_tokens(length))
    return [everything[rank :: _ranks(ranks)].clone() for rank in range(ranks)]


def split_documents(lengths: Sequence[int], ranks: int) -> list[Tensor]:
    """A zig-zag inside every packed document, so that each rank has an even share of every document's pairs.

    Documents lie one behind the other. Blocks that are one token longer are dealt to the rank with the least work so
    far.
    """
    parts: list[list[Tensor]] = [[] for _ in range(_ranks(ranks))]
    work = [0] * ranks
    start = 0
    for length in lengths:
        own = [piece + start for piece in zig_zag(length, ranks)]
        costs = [int((piece - start + 1).sum()) for piece in own]
        dearest_first = sorted(range(ranks), key=lambda piece: -costs[piece])
        idlest_first = sorted(range(ranks), key=lambda rank: work[rank])
        for rank, piece in zip(idlest_first, dearest_first, strict=True):
            parts[rank].append(own[piece])
            work[rank] += costs[piece]
        start += length
    empty = torch.empty(0, dtype=torch.int64)
    return [torch.cat([empty, *own]) for own in parts]


def cut(x: Tensor, positions: Tensor, dim: int = -2) -> Tensor:
    """The tokens of `x` at these positions along `dim`, in their own memory."""
    return x.index_select(dim, positions)


def join(parts: Sequence[Tensor], positions: Positions, dim: int = -2) -> Tensor:
    """All ranks' tokens in the order of the sequence: the inverse of `cut` on every rank."""
    order = torch.cat(list(positions)).argsort()
    return torch.cat(list(parts), dim).index_select(dim, order)


# --- work


def pairs(positions: Positions, mask: Mask = CAUSAL) -> list[int]:
    """The visible query-key pairs that each rank computes: its work, in units of 4·head_dim FLOPs per head."""
    if mask == CAUSAL or (mask.causal and mask.documents is None and mask.window is None):
        return [int((own + 1).sum()) for own in positions]
    everything = torch.cat(list(positions))
    return [int(mask.visible(own, everything).sum()) for own in positions]


def imbalance(work: Sequence[float]) -> float:
    """The slowest rank's work over the mean: 1 is even. No work at all is even too."""
    return max(work) * len(work) / sum(work) if sum(work) else 1.0


def _tokens(length: int) -> int:
    if type(length) is not int or length < 0:
        raise ValueError(f"A sequence of {length!r} tokens: give a whole number, 0 or more.")
    return length


def _ranks(ranks: int) -> int:
    return require_whole("ranks", ranks, "ranks")
