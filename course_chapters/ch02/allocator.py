"""A small model of PyTorch's caching allocator: blocks cut from segments, kept when freed, merged with free neighbors.

Asking the driver for memory is slow and returning it stalls the GPU, so the allocator takes large segments and keeps
them. *Allocated* bytes belong to tensors; *reserved* bytes are taken from the device. The difference is free for
PyTorch and unavailable to other programs. If no piece of it is large enough for a request, PyTorch cannot use it
either: that is fragmentation.

Left out: streams, rounding of large blocks to powers of two, limits on splitting. The sizes are those of PyTorch's
`c10/cuda/CUDACachingAllocator.cpp`.
"""

import math
from dataclasses import dataclass, field

from course_lib.estimate.units import MiB, bytes_text, require

LEAST = 512  # bytes; every block is a multiple of it
SMALL = int(MiB)  # blocks up to this size come from the small pool
SMALL_SEGMENT, LARGE_SEGMENT = int(2 * MiB), int(20 * MiB)  # bytes of a new segment
LARGE_FROM = int(10 * MiB)  # larger blocks get a segment of their own ...
STEP = int(2 * MiB)  # ... rounded up to this


class OutOfMemory(MemoryError):
    """The device has no room for another segment."""


@dataclass(slots=True)
class Block:
    """A piece of a segment: it belongs to the tensor `name`, or is free if the name is empty."""

    start: int  # bytes from the start of its segment
    nbytes: int
    name: str = ""


@dataclass(slots=True)
class Segment:
    """One contiguous piece of device memory, and the blocks it is cut into, in order."""

    nbytes: int
    small: bool
    blocks: list[Block] = field(default_factory=list)


class CachingAllocator:
    """Memory of a device of `capacity` bytes, allocated by name as PyTorch would.

    With `expandable`, each pool has one segment that grows at its end, as with `expandable_segments:True`.
    """

    def __init__(self, capacity: float, expandable: bool = False) -> None:
        self.capacity = int(require("capacity", capacity, "bytes"))
        self.expandable = expandable
        self.segments: list[Segment] = []
        self.allocated = self.peak_allocated = 0

    @property
    def reserved(self) -> int:
        """Bytes taken from the device."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free block."""
        return max((block.nbytes for segment in self.segments for block in segment.blocks if not block.name), default=0)

    def malloc(self, name: str, nbytes: float) -> None:
        """Give `nbytes` to the tensor `name`: the smallest free block that is large enough, or a new segment."""
        if not name or self._find(name) is not None:
            raise ValueError(f"name is {name!r}; give each live tensor a name of its own.")
        size = _multiple(math.ceil(require("nbytes", nbytes, "bytes")), LEAST)
        segment, block = self._best_fit(size) or self._new_block(size, nbytes)
        spare, least = block.nbytes - size, LEAST if segment.small else SMALL + 1
        if spare >= least or (self.expandable and spare >= LEAST):
            place = segment.blocks.index(block)
            segment.blocks.insert(place + 1, Block(block.start + size, spare))
            block.nbytes = size
        block.name = name
        self.allocated += block.nbytes
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, name: str) -> None:
        """Return the tensor's block to the cache and merge it with free neighbors; the device gets nothing back."""
        found = self._find(name)
        if found is None:
            raise ValueError(
                f"Nothing is called {name!r}; alive are {', '.join(sorted(self.names())) or 'no tensors'}."
            )
        segment, block = found
        block.name = ""
        self.allocated -= block.nbytes
        merged: list[Block] = []
        for each in segment.blocks:
            if merged and not merged[-1].name and not each.name:
                merged[-1].nbytes += each.nbytes
            else:
                merged.append(each)
        segment.blocks = merged

    def empty_cache(self) -> None:
        """Return segments without tensors to the device, and the free end of expandable segments."""
        self.segments = [segment for segment in self.segments if any(block.name for block in segment.blocks)]
        if self.expandable:
            for segment in self.segments:
                if not segment.blocks[-1].name:
                    segment.nbytes -= segment.blocks.pop().nbytes

    def names(self) -> list[str]:
        """The tensors that are alive, by address."""
        return [block.name for segment in self.segments for block in segment.blocks if block.name]

    def _find(self, name: str) -> tuple[Segment, Block] | None:
        every = ((segment, block) for segment in self.segments for block in segment.blocks)
        return next((pair for pair in every if pair[1].name == name), None)

    def _best_fit(self, size: int) -> tuple[Segment, Block] | None:
        fits = [
            (block.nbytes, place, block.start, segment, block)
            for place, segment in enumerate(self.segments)
            for block in segment.blocks
            if segment.small == (size <= SMALL) and not block.name and block.nbytes >= size
        ]
        return min(fits, key=lambda fit: fit[:3])[3:] if fits else None

    def _new_block(self, size: int, asked: float) -> tuple[Segment, Block]:
        """A free block of a new or extended segment; if the device is full, empty the cache and try once more."""
        for attempt in range(2):
            small = size <= SMALL
            old = next((s for s in self.segments if s.small == small), None) if self.expandable else None
            tail = old.blocks[-1].nbytes if old and not old.blocks[-1].name else 0
            grow = _segment_bytes(size) if not self.expandable else _multiple(size - tail, STEP)
            if self.reserved + grow <= self.capacity:
                return _extended(old, grow) if old else self._add(grow, small)
            if attempt == 0:
                self.empty_cache()
        raise OutOfMemory(f"Tried to allocate {bytes_text(asked)}. {self}")

    def __str__(self) -> str:
        """The device in an error message: capacity, allocated, and reserved but unallocated bytes."""
        said = f"Of {bytes_text(self.capacity)}, {bytes_text(self.allocated)} are allocated"
        free = self.reserved - self.allocated
        return (
            f"{said} and {bytes_text(free)} reserved but unallocated, the largest piece of them "
            f"{bytes_text(self.largest_free)}."
            if free
            else said + "."
        )

    def _add(self, nbytes: int, small: bool) -> tuple[Segment, Block]:
        self.segments.append(Segment(nbytes, small, [Block(0, nbytes)]))
        return self.segments[-1], self.segments[-1].blocks[0]


def _extended(segment: Segment, grow: int) -> tuple[Segment, Block]:
    """Grow a segment at its end; returns it and its free block there."""
    if segment.blocks[-1].name:
        segment.blocks.append(Block(segment.nbytes, 0))
    segment.blocks[-1].nbytes += grow
    segment.nbytes += grow
    return segment, segment.blocks[-1]


def _segment_bytes(size: int) -> int:
    """Bytes of the new segment for a block of `size` that fits in no existing one."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_FROM else _multiple(size, STEP)


def _multiple(nbytes: int, of: int) -> int:
    return -(-nbytes // of) * of
