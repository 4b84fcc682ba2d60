"""Plain data as bytes, for a process boundary that only plain data may cross.

None, bool, int, float, str, list, tuple, dict and tensor may cross, by exact type: a subclass is refused, because it
may carry behavior. This module encodes, `decoder` decodes. Loading them does not load torch.
"""

import struct
import sys
from collections.abc import Callable
from typing import Any

from course_grader.remote_ranks.decoder import BIG_INT, F64, I64, OF_A_TENSOR, U32, BadFrame, Limits, decode
from course_grader.remote_ranks.tensor_bytes import DTYPES, NotPlainData, dtype_of, tensor_bytes

_SMALLS = [b"B" + bytes((n,)) for n in range(256)]
_WORDS = [b"W" + bytes((n,)) for n in range(256)]
_SCALARS = frozenset((int, float, str, bool, type(None)))
_LARGE = 2**16  # bytes of a tensor above which copying costs more than a view
Put = Callable[[bytes | memoryview], None]


def encode(value: object) -> bytes:
    """The value as bytes; `NotPlainData` says which part of it cannot cross."""
    return b"".join(pieces(value))


def pieces(value: object) -> list[bytes | memoryview]:
    """The encoded bytes in pieces, not yet joined; large tensors are views of their own memory."""
    parts: list[bytes | memoryview] = []
    _write(value, parts.append, "the value", 0)
    return parts


def _write(value: Any, put: Put, path: str, depth: int) -> None:
    kind = type(value)
    if kind is int:
        _write_int(value, put, path)
    elif kind is str:
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise NotPlainData(f"{path} is text with half a surrogate pair; it is not Unicode.") from None
        put((_WORDS[len(text)] if len(text) < 256 else b"S" + U32.pack(len(text))) + text)
    elif kind is float:
        put(b"D" + F64.pack(value))
    elif value is None:
        put(b"N")
    elif kind is bool:
        put(b"T" if value else b"F")
    elif kind is tuple or kind is list:
        _nest(depth, path)
        put((b"U" if kind is tuple else b"L") + U32.pack(len(value)))
        for index, item in enumerate(value):
            if type(item) is int and 0 <= item < 256:
                put(_SMALLS[item])
            elif type(item) in _SCALARS:
                _write(item, put, path, depth + 1)
            else:
                _write(item, put, f"{path}[{index}]", depth + 1)
    elif kind is dict:
        _nest(depth, path)
        put(b"M" + U32.pack(len(value)))
        for key, item in value.items():
            _write(key, put, f"a key of {path}", depth + 1)
            _write(item, put, f"{path}[{key!r:.40}]", depth + 1)
    else:
        _write_tensor(value, put, path)


def _nest(depth: int, path: str) -> None:
    if depth > 200:
        raise NotPlainData(f"{path:.80} … nests deeper than 200 levels, or holds itself.")


def _write_int(value: int, put: Put, path: str) -> None:
    if 0 <= value < 256:
        put(_SMALLS[value])
        return
    if -(2**63) <= value < 2**63:
        put(b"I" + I64.pack(value))
        return
    size = value.bit_length() // 8 + 1
    if size > BIG_INT:
        raise NotPlainData(f"{path} is an integer of {size} bytes; {BIG_INT} may cross.")
    put(b"J" + U32.pack(size) + value.to_bytes(size, "little", signed=True))


def _write_tensor(value: Any, put: Put, path: str) -> None:
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor:
        raise NotPlainData(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}; only None, bool, int, float, str, "
            "list, tuple, dict and tensor cross, by exact type."
        )
    code, numbers = tensor_bytes(value, path)
    shape = value.shape
    put(b"X" + bytes((code, len(shape))) + struct.pack(f"<{len(shape)}q", *shape))
    put(numbers.data.cast("B") if numbers.nbytes > _LARGE else numbers.tobytes())


def plain(value: object) -> object:
    """The value with almost plain parts converted: numpy numbers and arrays, parameters, named tuples, subclasses of
    numbers."""
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


__all__ = [
    "DTYPES",
    "OF_A_TENSOR",
    "BadFrame",
    "Limits",
    "NotPlainData",
    "decode",
    "dtype_of",
    "encode",
    "pieces",
    "plain",
    "tensor_bytes",
]
