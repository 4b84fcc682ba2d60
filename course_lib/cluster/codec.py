"""Plain data as bytes and back, for a boundary that nothing else may cross.

None, bool, int, float, str, list, tuple, dict and tensor, each by its exact type: a subclass is refused, since it may carry
behaviour. Nothing is executed on reading, nothing is allocated for a length that the bytes do not hold, and what is read
shares no memory with what was sent. Loading this module does not load torch.
"""

from __future__ import annotations

import math
import struct
import sys
from dataclasses import dataclass
from typing import Any

_U32, _I64, _F64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "complex128",
    "uint16",
    "uint32",
    "uint64",
    "float8_e4m3fn",
    "float8_e5m2",
]
_SMALLS = [b"B" + bytes((n,)) for n in range(256)]
_WORDS = [b"W" + bytes((n,)) for n in range(256)]
_SCALARS = frozenset((int, float, str, bool, type(None)))
_LARGE = 2**16  # bytes of a tensor from which on a copy of them costs more than a view
_BIG_INT = 4096  # bytes of the largest integer that crosses
_BIG_INTS = 2000  # beyond 64 bits in one frame
_SAME_HASH = (
    16  # keys of a dictionary with one hash: to look for one among many takes a time that grows with their square
)
OF_A_TENSOR = 100  # values for which a tensor counts: an empty one takes two kilobytes here, and a byte there
_DIMS = 32


class NotPlainData(TypeError):
    """A value that cannot cross, and where in the whole it stands."""


class BadFrame(ValueError):
    """Bytes that are not the encoding of plain data within the limits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes: bytes of the whole, values in it, and how deep they nest."""

    nbytes: int = 64 * 2**20
    items: int = 1_000_000
    depth: int = 64


def encode(value: Any) -> bytes:
    """The value as bytes; `NotPlainData` says which part of it cannot cross."""
    return b"".join(pieces(value))


def pieces(value: Any) -> list[bytes | memoryview]:
    """The same, not yet put together: large tensors are views of their own memory."""
    parts: list[bytes | memoryview] = []
    _write(value, parts.append, "the value", 0)
    return parts


def decode(data: bytes | bytearray | memoryview, limits: Limits = Limits()) -> Any:  # noqa: B008 - frozen
    """The value that `encode` made these bytes of; `BadFrame` for anything else."""
    if len(data) > limits.nbytes:
        raise BadFrame(f"{len(data)} bytes came, and {limits.nbytes} are allowed.")
    reader = _Reader(data if isinstance(data, bytearray) else bytes(data), limits)
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise BadFrame(f"{len(reader.data) - reader.at} bytes are left over after the value.")
    return value


def _write(value: Any, put: Any, path: str, depth: int) -> None:
    kind = type(value)
    if kind is int:
        _write_int(value, put, path)
    elif kind is str:
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise NotPlainData(f"{path} is text with half a surrogate pair; it is not Unicode.") from None
        put((_WORDS[len(text)] if len(text) < 256 else b"S" + _U32.pack(len(text))) + text)
    elif kind is float:
        put(b"D" + _F64.pack(value))
    elif value is None:
        put(b"N")
    elif kind is bool:
        put(b"T" if value else b"F")
    elif kind is tuple or kind is list:
        _nest(depth, path)
        put((b"U" if kind is tuple else b"L") + _U32.pack(len(value)))
        for index, item in enumerate(value):
            if type(item) is int and 0 <= item < 256:
                put(_SMALLS[item])
            elif type(item) in _SCALARS:
                _write(item, put, path, depth + 1)
            else:
                _write(item, put, f"{path}[{index}]", depth + 1)
    elif kind is dict:
        _nest(depth, path)
        put(b"M" + _U32.pack(len(value)))
        for key, item in value.items():
            _write(key, put, f"a key of {path}", depth + 1)
            _write(item, put, f"{path}[{key!r:.40}]", depth + 1)
    else:
        _write_tensor(value, put, path)


def _nest(depth: int, path: str) -> None:
    if depth > 200:
        raise NotPlainData(f"{path:.80} … nests deeper than 200 levels, or holds itself.")


def _write_int(value: int, put: Any, path: str) -> None:
    if 0 <= value < 256:
        put(_SMALLS[value])
        return
    if -(2**63) <= value < 2**63:
        put(b"I" + _I64.pack(value))
        return
    size = value.bit_length() // 8 + 1
    if size > _BIG_INT:
        raise NotPlainData(f"{path} is an integer of {size} bytes; {_BIG_INT} may cross.")
    put(b"J" + _U32.pack(size) + value.to_bytes(size, "little", signed=True))


def _write_tensor(value: Any, put: Any, path: str) -> None:
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor:
        raise NotPlainData(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}; only None, bool, int, float, str, list, tuple, "
            "dict and tensor cross, by exact type."
        )
    code, numbers = tensor_bytes(value, path)
    shape = value.shape
    put(b"X" + bytes((code, len(shape))) + struct.pack(f"<{len(shape)}q", *shape))
    put(numbers.data.cast("B") if numbers.nbytes > _LARGE else numbers.tobytes())


def tensor_bytes(value: Any, path: str) -> tuple[int, Any]:
    """A tensor's dtype as its place in `DTYPES`, and its numbers as a numpy array in one piece; `NotPlainData` for one that cannot cross."""
    code = _CODES.get(value.dtype)
    if code is None:
        _learn_dtypes()
        code = _CODES.get(value.dtype)
    torch = sys.modules["torch"]
    if code is None or value.layout is not torch.strided or value.is_meta:
        raise NotPlainData(
            f"{path} is a tensor of {value.dtype}, layout {value.layout}, on {value.device}; it cannot cross."
        )
    if code in _NUMPY and value.is_cpu and not (value.requires_grad or value.is_neg()):
        numbers = value.numpy()
        return code, numbers if numbers.flags.c_contiguous else numbers.copy()
    flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return code, flat.view(torch.uint8).numpy()


def dtype_of(code: int) -> Any:
    """The torch dtype at a place in `DTYPES`."""
    if not _TORCH:
        _learn_dtypes()
    return _TORCH[code]


_CODES: dict[Any, int] = {}  # torch dtype -> its place in DTYPES; filled when torch is there
_TORCH: list[Any] = []
_NUMPY = frozenset(
    DTYPES.index(name) for name in ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
)


def _learn_dtypes() -> None:
    if not _TORCH:
        import torch

        _TORCH.extend(getattr(torch, name) for name in DTYPES)
        _CODES.update({dtype: code for code, dtype in enumerate(_TORCH)})


def plain(value: Any) -> Any:
    """The value with what is nearly plain made plain: numpy numbers and arrays, parameters, named tuples, subclasses of numbers."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.nn.Parameter):
        return value.detach()
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    if numpy is not None and torch is not None and isinstance(value, numpy.ndarray):
        return torch.from_numpy(value.copy())
    return value


_INT, _TEXT, _NONE, _TRUE, _FALSE, _FLOAT, _TUPLE, _LIST, _DICT, _TENSOR, _BIG, _SMALL, _WORD = b"ISNTFDULMXJBW"


class _Reader:
    def __init__(self, data: bytes | bytearray, limits: Limits) -> None:
        self.data, self.at, self.depth, self.left = data, 0, limits.depth, limits.items
        self.big = _BIG_INTS

    def take(self, count: int) -> bytes | bytearray:
        """The next bytes, after looking whether there are so many."""
        start = self.at
        if count > len(self.data) - start:
            raise BadFrame(f"{count} bytes are announced and {len(self.data) - start} are there.")
        self.at = start + count
        return self.data[start : self.at]

    def value(self, depth: int) -> Any:
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
            return _I64.unpack(self.take(8))[0]
        if mark == _TEXT:
            return self._text(_U32.unpack(self.take(4))[0])
        if mark == _NONE:
            return None
        if mark == _TRUE:
            return True
        if mark == _FALSE:
            return False
        if mark == _FLOAT:
            return _F64.unpack(self.take(8))[0]
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
        count = _U32.unpack(self.take(4))[0]
        if count * least > len(self.data) - self.at or count > self.left:
            raise BadFrame(f"{count} values are announced, more than there can be.")
        return count

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError:
            raise BadFrame("Text is not UTF-8.") from None

    def _big(self) -> int:
        size = _U32.unpack(self.take(4))[0]
        if not 8 <= size <= _BIG_INT:
            raise BadFrame(f"An integer of {size} bytes; 8 to {_BIG_INT} are allowed here.")
        self.big -= 1
        if self.big < 0:
            raise BadFrame(f"There are more than {_BIG_INTS} integers of more than 64 bits.")
        return int.from_bytes(self.take(size), "little", signed=True)

    def _dict(self, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        hashes: dict[int, int] = {}
        for _ in range(self._count(2)):
            key = self.value(depth + 1)
            try:
                same = hashes[key_hash] = hashes.get(key_hash := hash(key), 0) + 1
            except TypeError:
                raise BadFrame(f"A {type(key).__name__} cannot be a key.") from None
            if same > _SAME_HASH:
                raise BadFrame("Many keys of a dictionary have the same hash.")
            if key in found:
                raise BadFrame("A key stands twice in a dictionary.")
            found[key] = self.value(depth + 1)
        return found

    def _tensor(self) -> Any:
        self.left -= OF_A_TENSOR - 1
        if self.left < 0:
            raise BadFrame("There are more tensors than allowed.")
        code, dims = self.take(2)
        if code >= len(DTYPES) or dims > _DIMS:
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
        if dtype is torch.bool:  # a byte other than 0 and 1 is no bool
            return (torch.frombuffer(raw, dtype=torch.uint8) != 0).reshape(shape)
        flat = torch.frombuffer(raw, dtype=dtype)
        return flat if dims == 1 else flat.reshape(shape)
