"""A small fast memory beside a large slow one: a kernel loads tiles, computes on them, and stores results.

On a GPU the slow memory is HBM, and the fast one is the shared memory and registers of a streaming multiprocessor. The
meter counts what a kernel's author counts: bytes that cross between the two, and bytes that are held at one time. Left
out: caches between the two, and the several multiprocessors that share the slow memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.estimate.units import bytes_text
from course_lib.model.accounting import Accounting, unseen

Where = slice | tuple[slice, ...]


class FastMemoryFull(RuntimeError):
    """A kernel holds more than fits."""


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store."""

    kind: str  # "load" or "store"
    name: str  # of the tensor in slow memory
    rows: tuple[int, int]  # first row, and the row after the last
    nbytes: int
    held: int  # bytes in fast memory right after it


class FastMemory(Accounting):
    """Slow memory with named tensors, and a fast one for at most `capacity` bytes (None: no limit).

        memory = FastMemory(4096, x=x, y=torch.empty_like(x))
        with memory:                                    # from here on every new tensor is in fast memory
            for rows in memory.tiles("x", 16):
                memory.store("y", memory.load("x", rows).exp_(), rows)

    A tensor is held until its last name is gone, so `del tile` makes room; views and in-place operations take none.
    What does not fit raises `FastMemoryFull` in the line that asks for it.
    """

    def __init__(self, capacity: int | None = None, **slow: Tensor) -> None:
        super().__init__()
        self.capacity, self._slow = capacity, slow
        self.log: list[Access] = []

    def _grow(self, nbytes: int) -> None:
        super()._grow(nbytes)
        if self.capacity is not None and self.live_bytes > self.capacity:
            held, more = self.live_bytes - nbytes, bytes_text(nbytes)
            raise FastMemoryFull(
                f"The fast memory holds {bytes_text(held)} of {bytes_text(self.capacity)}, and {more} more do not fit. "
                "Take smaller tiles, delete a tile that is no longer needed, or work in place."
            )

    # --- what a kernel calls

    def shape(self, name: str) -> torch.Size:
        """The shape of a tensor in slow memory."""
        return self._named(name).shape

    def tiles(self, name: str, rows: int) -> list[slice]:
        """The rows of a tensor in tiles of `rows`; the last one may be shorter."""
        if rows < 1:
            raise ValueError(f"A tile of {rows} rows; it must have at least one.")
        count = self.shape(name)[0]
        return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]

    def load(self, name: str, where: Where) -> Tensor:
        """A copy of `tensor[where]` in fast memory; its bytes are counted as loaded."""
        tile = self._part(name, where).clone(memory_format=torch.contiguous_format)
        self._note("load", name, where, tile)
        return tile

    def store(self, name: str, tile: Tensor, where: Where) -> None:
        """Write a tile of the same shape to `tensor[where]`, in the tensor's dtype; its bytes there are counted as
        stored."""
        part = self._part(name, where)
        if part.shape != tile.shape:
            raise ValueError(f"store: {name}[{where}] has shape {tuple(part.shape)}, the tile {tuple(tile.shape)}.")
        with unseen():
            part.copy_(tile)
        self._note("store", name, where, part)

    # --- what the caller reads

    @property
    def traffic(self) -> int:
        """Bytes between slow and fast memory so far."""
        return sum(access.nbytes for access in self.log)

    def slow(self, *names: str) -> list[Tensor]:
        """The tensors in slow memory with these names; reading them is not counted."""
        return [self._named(name) for name in names]

    def _named(self, name: str) -> Tensor:
        if name not in self._slow:
            raise ValueError(f"There is no {name!r} in slow memory; it has {', '.join(self._slow)}.")
        return self._slow[name]

    def _part(self, name: str, where: Where) -> Tensor:
        tensor = self._named(name)
        parts: Sequence[slice] = where if isinstance(where, tuple) else (where,)
        for at, (part, size) in enumerate(zip(parts, tensor.shape, strict=False)):
            if part.stop is not None and part.stop > size or (part.start or 0) < 0:
                raise ValueError(f"{name} has {size} places along dimension {at}; {part.start}:{part.stop} is outside.")
        with unseen():
            return tensor[where]

    def _note(self, kind: str, name: str, where: Where, part: Tensor) -> None:
        first = where[0] if isinstance(where, tuple) else where
        start, stop, _ = first.indices(self._slow[name].shape[0])
        self.log.append(Access(kind, name, (start, stop), part.nbytes, self.live_bytes))
