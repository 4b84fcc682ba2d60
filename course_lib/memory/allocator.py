"""PyTorch's caching allocator for GPU memory, in small: blocks cut from segments, kept when freed, merged with free neighbours.

Asking the driver for memory is slow and giving it back stops the GPU, so the allocator takes large segments and keeps them as long as it can.
Two numbers follow: *allocated* bytes belong to tensors, *reserved* bytes are taken from the device. What lies between them
is free to PyTorch, useless to everybody else, and useless to PyTorch too where no piece of it is long enough: fragmentation.

Left out: streams, rounding of large blocks to powers of two, limits on splitting. The sizes are those of PyTorch's
`c10/cuda/CUDACachingAllocator.cpp`.
"""

import math
from dataclasses import dataclass, field

from course_lib.units import MiB, bytes_text, require

LEAST = 512  # bytes: every block is a multiple
SMALL = int(MiB)  # up to here a block comes from the small pool
SMALL_SEGMENT, LARGE_SEGMENT = int(2 * MiB), int(20 * MiB)  # what is asked for at a time
LARGE_FROM = int(10 * MiB)  # from here on a block has a segment of its own ...
STEP = int(2 * MiB)  # ... in steps of this


class OutOfMemory(MemoryError):
    """The device has no room for another segment."""


@dataclass(slots=True)
class Block:
    """A piece of a segment: a tensor's, or free when it has no name."""

    start: int  # bytes from the start of its segment
    nbytes: int
    name: str = ""


@dataclass(slots=True)
class Segment:
    """One piece of device memory, and the blocks that it is cut into, in order."""

    nbytes: int
    small: bool
    blocks: list[Block] = field(default_factory=list)


class CachingAllocator:
    """Memory of a device of `capacity` bytes, as PyTorch hands it out by name.

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
        """Give `nbytes` to the tensor `name`: the smallest free block that is long enough, else a new segment."""
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
        """Take the tensor's block back into the cache and merge it with free neighbours; nothing goes to the device."""
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
        """Give segments without a tensor back to the device, and the free end of those that can shrink."""
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
        """A free block of a new segment, or at the end of one that grows; once more after the cache was emptied."""
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
        """What an error says of the device: capacity, allocated, and what is reserved and of no use."""
        said = f"Of {bytes_text(self.capacity)}, {bytes_text(self.allocated)} are allocated"
        free = self.reserved - self.allocated
        return (
            f"{said} and {bytes_text(free)} reserved but unallocated, the largest piece of them {bytes_text(self.largest_free)}."
            if free
            else said + "."
        )

    def _add(self, nbytes: int, small: bool) -> tuple[Segment, Block]:
        self.segments.append(Segment(nbytes, small, [Block(0, nbytes)]))
        return self.segments[-1], self.segments[-1].blocks[0]


def _extended(segment: Segment, grow: int) -> tuple[Segment, Block]:
    """A segment that has grown at its end, and its free block there."""
    if segment.blocks[-1].name:
        segment.blocks.append(Block(segment.nbytes, 0))
    segment.blocks[-1].nbytes += grow
    segment.nbytes += grow
    return segment, segment.blocks[-1]


def _segment_bytes(size: int) -> int:
    """Bytes of the segment that is asked for when a block of `size` fits nowhere."""
    if size <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_FROM else _multiple(size, STEP)


def _multiple(nbytes: int, of: int) -> int:
    return -(-nbytes // of) * of
