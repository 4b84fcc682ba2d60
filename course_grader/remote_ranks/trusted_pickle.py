"""Messages from the judge to a worker as bytes: the only direction in which the reader may trust the writer.

The values of `codec` may cross, and bytes and sets as well. It is several times as fast, because nothing needs to be
checked. Messages from a worker to the judge use only `codec`. Loading this module does not load torch.
"""

import io
import pickle
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_grader.remote_ranks import codec

if TYPE_CHECKING:
    from torch import Tensor


class _Pickler(pickle.Pickler):
    """Plain values and tensors; a value that occurs twice is written twice, so that the result shares nothing."""

    def reducer_override(self, value: Any) -> tuple[Callable[..., object], tuple[object, ...]]:
        if value is _tensor:
            return NotImplemented
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor:
            raise codec.NotPlainData
        return _tensor, _parts(value)


def pack(value: object) -> bytes:
    """The value as bytes; `NotPlainData` says which part of it cannot cross."""
    out = io.BytesIO()
    pickler = _Pickler(out, 5)
    pickler.fast = True
    try:
        pickler.dump(value)
    except (codec.NotPlainData, ValueError, RecursionError):  # the last two of what holds itself
        codec.encode(value)  # says where it stands
        raise
    return out.getvalue()


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """The value that `pack` made these bytes of. Never use it on bytes from a worker: unpickling can execute any
    code."""
    return pickle.loads(data)


def _parts(tensor: "Tensor") -> tuple[int, tuple[int, ...], tuple[int, ...], pickle.PickleBuffer]:
    """A tensor's dtype as an index in `codec.DTYPES`, its shape, the order of its dimensions in memory, and its bytes.

    The order is empty for a contiguous tensor. Gaps between its elements do not cross: they may hold what is not the
    reader's.
    """
    order: tuple[int, ...] = ()
    if not tensor.is_contiguous():
        strides = tensor.stride()
        order = tuple(sorted(range(tensor.dim()), key=lambda dim: -strides[dim]))
    code, numbers = codec.tensor_bytes(tensor.permute(order) if order else tensor, "the value")
    return code, tuple(tensor.shape), order, pickle.PickleBuffer(numbers.data)


def _tensor(code: int, shape: tuple[int, ...], order: tuple[int, ...], raw: bytearray) -> "Tensor":
    """A tensor from the result of `_parts`, with its dimensions in the same order in memory."""
    import torch

    dtype = codec.dtype_of(code)
    flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    if not order:
        return flat if len(shape) == 1 else flat.reshape(shape)
    return flat.reshape([shape[dim] for dim in order]).permute([order.index(dim) for dim in range(len(order))])
