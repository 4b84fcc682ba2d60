"""Decoding plain data from untrusted bytes.

Decoding executes nothing, allocates nothing for a length that the bytes do not contain, and returns data that shares no
memory with the bytes.
"""

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_grader.remote_ranks.tensor_bytes import DTYPES, dtype_of

if TYPE_CHECKING:
    from torch import Tensor

U32, I64, F64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
BIG_INT = 4096  # bytes of the largest integer that crosses
BIG_INTS = 2000  # integers of more than 64 bits in one frame
SAME_HASH = 16  # dictionary keys with the same hash: many of them would take quadratic time
OF_A_TENSOR = (
    100  # a tensor counts as so many values: an empty one takes two kilobytes in memory, and a byte in a frame
)
DIMS = 32


class BadFrame(ValueError):
    """Bytes that are not the encoding of plain data within the limits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a decoder: total bytes, number of values, and depth of nesting."""

    nbytes: int = 64 * 2**20
    items: int = 1_000_000
    depth: int = 64


def decode(data: bytes | bytearray | memoryview, limits: Limits = Limits()) -> object:  # noqa: B008 - frozen
    """The value that `encode` encoded; `BadFrame` for any other bytes."""
    if len(data) > limits.nbytes:
        raise BadFrame(f"{len(data)} bytes came, and {limits.nbytes} are allowed.")
    reader = _Reader(data if isinstance(data, bytearray) else bytes(data), limits)
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise BadFrame(f"{len(reader.data) - reader.at} bytes are left over after the value.")
    return value


_INT, _TEXT, _NONE, _TRUE, _FALSE, _FLOAT, _TUPLE, _LIST, _DICT, _TENSOR, _BIG, _SMALL, _WORD = b"ISNTFDULMXJBW"


class _Reader:
    def __init__(self, data: bytes | bytearray, limits: Limits) -> None:
        self.data, self.at, self.depth, self.left = data, 0, limits.depth, limits.items
        self.big = BIG_INTS

    def take(self, count: int) -> bytes | bytearray:
        """The next bytes, after checking that there are that many."""
        start = self.at
        if count > len(self.data) - start:
            raise BadFrame(f"{count} bytes are announced and {len(self.data) - start} are there.")
        self.at = start + count
        return self.data[start : self.at]

    def value(self, depth: int) -> object:
        self.left -= 1
        if self.left < 0:
            raise BadFrame("There are more values than allowed.")
        at = self.at
        data = self.data
        if at >= len(data):
            raise BadFrame("A value is announced and nothing is there.")
        mark = data[at]
        self.at = at + 1
        if mark == _SMALL:
            self.at = at + 2
            if at + 1 >= len(data):
                raise BadFrame("A number is announced and nothing is there.")
            return data[at + 1]
        if mark == _WORD:
            size = self.take(1)[0]
            return self._text(size)
        if mark == _INT:
            return I64.unpack(self.take(8))[0]
        if mark == _TEXT:
            return self._text(U32.unpack(self.take(4))[0])
        if mark == _NONE:
            return None
        if mark == _TRUE:
            return True
        if mark == _FALSE:
            return False
        if mark == _FLOAT:
            return F64.unpack(self.take(8))[0]
        if depth >= self.depth:
            raise BadFrame(f"Values nest deeper than {self.depth} levels.")
        if mark == _TUPLE:
            return tuple([self.value(depth + 1) for _ in range(self._count(1))])
        if mark == _LIST:
            return [self.value(depth + 1) for _ in range(self._count(1))]
        if mark == _DICT:
            return self._dict(depth)
        if mark == _TENSOR:
            return self._tensor()
        if mark == _BIG:
            return self._big()
        raise BadFrame(f"{bytes((mark,))!r} marks no kind of value.")

    def _count(self, least: int) -> int:
        count = U32.unpack(self.take(4))[0]
        if count * least > len(self.data) - self.at or count > self.left:
            raise BadFrame(f"{count} values are announced, more than there can be.")
        return count

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise BadFrame("Text is not UTF-8.") from None

    def _big(self) -> int:
        size = U32.unpack(self.take(4))[0]
        if not 8 <= size <= BIG_INT:
            raise BadFrame(f"An integer of {size} bytes; 8 to {BIG_INT} are allowed here.")
        self.big -= 1
        if self.big < 0:
            raise BadFrame(f"There are more than {BIG_INTS} integers of more than 64 bits.")
        return int.from_bytes(self.take(size), "little", signed=True)

    def _dict(self, depth: int) -> dict[object, object]:
        found: dict[object, object] = {}
        hashes: dict[int, int] = {}
        for _ in range(self._count(2)):
            key = self.value(depth + 1)
            try:
                key_hash = hash(key)
            except TypeError:
                raise BadFrame(f"A {type(key).__name__} cannot be a key.") from None
            same = hashes[key_hash] = hashes.get(key_hash, 0) + 1
            if same > SAME_HASH:
                raise BadFrame("Many keys of a dictionary have the same hash.")
            if key in found:
                raise BadFrame("A key stands twice in a dictionary.")
            found[key] = self.value(depth + 1)
        return found

    def _tensor(self) -> "Tensor":
        self.left -= OF_A_TENSOR - 1
        if self.left < 0:
            raise BadFrame("There are more tensors than allowed.")
        code, dims = self.take(2)
        if code >= len(DTYPES) or dims > DIMS:
            raise BadFrame("A tensor of an unknown dtype, or of too many dimensions.")
        shape = struct.unpack(f"<{dims}q", self.take(8 * dims))
        if any(n < 0 or n >= 2**48 for n in shape):
            raise BadFrame(f"A tensor of shape {shape}.")
        import torch

        dtype = dtype_of(code)
        if 0 in shape:
            if math.prod(max(n, 1) for n in shape) >= 2**48:
                raise BadFrame(f"A tensor of shape {shape}.")
            return torch.empty(shape, dtype=dtype)
        raw = self.take(math.prod(shape) * dtype.itemsize)
        raw = raw if isinstance(raw, bytearray) else bytearray(raw)
        if dtype is torch.bool:  # only the bytes 0 and 1 are bools
            return (torch.frombuffer(raw, dtype=torch.uint8) != 0).reshape(shape)
        flat = torch.frombuffer(raw, dtype=dtype)
        return flat if dims == 1 else flat.reshape(shape)
