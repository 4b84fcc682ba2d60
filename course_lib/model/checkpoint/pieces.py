"""Tensors in a checkpoint as stretches of their flattened elements, so that any number of ranks can read what any
number wrote."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole
from course_lib.model.checkpoint.store import Checkpoint, CheckpointError, CheckpointStore


class Piece(NamedTuple):
    """Elements of a tensor, from `start` on."""

    name: str
    shape: tuple[int, ...]  # of the whole tensor
    start: int
    values: Tensor  # flat

    @property
    def stop(self) -> int:
        """The first element after these."""
        return self.start + self.values.numel()


class Stretch(NamedTuple):
    """Where a piece lies in a checkpoint."""

    name: str
    shape: list[int]
    dtype: str
    start: int
    stop: int
    rank: int
    offset: int  # bytes


def bounds(nbytes: Sequence[int], ranks: int) -> list[int]:
    """Where to cut tensors of so many bytes, laid end to end, into equal shares: ranks + 1 byte offsets."""
    require_whole("ranks", ranks, "ranks")
    total = sum(nbytes)
    return [total * rank // ranks for rank in range(ranks + 1)]


def share_of(state: Mapping[str, Tensor], rank: int, ranks: int) -> list[Piece]:
    """What rank `rank` of `ranks` replicas saves, so that every element is saved once and all save about the same
    number of bytes.

    Views, no copies. All ranks must hold the same names, shapes and dtypes in the same order.
    """
    sizes = [each.numel() * each.element_size() for each in state.values()]
    low, high = bounds(sizes, ranks)[rank : rank + 2]
    pieces, at = [], 0
    for (name, tensor), nbytes in zip(state.items(), sizes, strict=True):
        size = tensor.element_size()
        first, last = (min(max(-(-(edge - at) // size), 0), tensor.numel()) for edge in (low, high))
        # a tensor without elements belongs to the first rank
        if first < last or (not nbytes and rank == 0):
            pieces.append(Piece(name, tuple(tensor.shape), first, tensor.detach().reshape(-1)[first:last]))
        at += nbytes
    return pieces


def write_pieces(store: CheckpointStore, folder: Path, rank: int, pieces: Iterable[Piece], notes: object = None) -> int:
    """Write this rank's pieces and record them; the number of bytes. `notes` is anything that JSON holds."""
    pieces, stretches, offset = list(pieces), [], 0
    for each in pieces:
        kind = str(each.values.dtype).removeprefix("torch.")
        stretches.append(Stretch(each.name, list(each.shape), kind, each.start, each.stop, rank, offset))
        offset += each.values.numel() * each.values.element_size()
    return store.write_part(
        folder, rank, (_bytes(each.values) for each in pieces), {"pieces": stretches, "notes": notes}
    )


def _bytes(values: Tensor) -> memoryview:
    return values.detach().cpu().contiguous().view(torch.uint8).numpy().data if values.numel() else memoryview(b"")


class PieceReader:
    """The tensors of a checkpoint, in whatever pieces they are wanted. Reads only the bytes asked for."""

    def __init__(self, store: CheckpointStore, found: Checkpoint) -> None:
        self.store, self.found, self.bytes_read = store, found, 0
        self.stretches: dict[str, list[Stretch]] = {}
        for rank in range(found.ranks):
            for each in map(Stretch._make, found.notes[str(rank)]["pieces"]):
                self.stretches.setdefault(each.name, []).append(each)
        for stretches in self.stretches.values():
            stretches.sort(key=lambda one: one.start)

    def notes_of(self, rank: int) -> Any:
        """What a rank noted beside its pieces."""
        return self.found.notes[str(rank)]["notes"]

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape. CheckpointError if it is not in the checkpoint."""
        return tuple(self._of(name)[0].shape)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        """Elements `start` to `stop` (None: the end), flat. CheckpointError if some are not there, or their file is not
        whole."""
        stretches = self._of(name)
        stop = math.prod(stretches[0].shape) if stop is None else stop
        dtype, parts, at = getattr(torch, stretches[0].dtype), [], start
        for each in stretches:
            first, last = max(at, each.start), min(stop, each.stop)
            if first < last and first == at:
                begin = each.offset + (first - each.start) * dtype.itemsize
                end = begin + (last - first) * dtype.itemsize
                path = self.found.folder / f"part-{each.rank}.bin"
                try:
                    data = bytearray(b"".join(self.store.disk.read(path, begin, end)))
                except FileNotFoundError:
                    raise CheckpointError(
                        "missing part", f"{self.found.folder.name}: {path.name} is missing."
                    ) from None
                if len(data) != end - begin:
                    raise CheckpointError("torn", f"{self.found.folder.name}: {path.name} ends before byte {end:,}.")
                self.bytes_read += len(data)
                parts.append(torch.frombuffer(data, dtype=dtype))
                at = last
        if at != stop and stop > start:
            raise CheckpointError("missing part", f"{self.found.folder.name}: {name} lacks elements {at} to {stop}.")
        return torch.cat(parts) if parts else torch.zeros(0, dtype=dtype)

    def fill(self, state: Mapping[str, Tensor]) -> None:
        """Copy whole tensors into those of `state`. CheckpointError, before anything is changed, if names or shapes
        differ.

        Values are converted to the dtype of `state`, as `Tensor.copy_` does.
        """
        if missing := [name for name in state if name not in self.stretches]:
            raise CheckpointError("other model", f"{self.found.folder.name} has no {missing[0]}.")
        if more := [name for name in self.stretches if name not in state]:
            raise CheckpointError("other model", f"{self.found.folder.name} has {more[0]}, which this run has not.")
        for name, tensor in state.items():
            if self.shape(name) != tuple(tensor.shape):
                words = (
                    f"{name} is {list(self.shape(name))} in {self.found.folder.name} and {list(tensor.shape)} "
                    f"in this run."
                )
                raise CheckpointError("other model", words)
        read = {name: self.read(name) for name in state}
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(read[name].view(tensor.shape))

    def _of(self, name: str) -> list[Stretch]:
        if name not in self.stretches:
            raise CheckpointError("other model", f"{self.found.folder.name} has no {name}.")
        return self.stretches[name]
