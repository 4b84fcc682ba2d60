"""The dtypes that may cross a process boundary, and a tensor's elements as bytes. Loading this module does not load
torch."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

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


class NotPlainData(TypeError):
    """A value that cannot cross, and its position in the whole."""


def tensor_bytes(value: "torch.Tensor", path: str) -> "tuple[int, np.ndarray]":
    """A tensor's dtype as an index in `DTYPES`, and its numbers as a contiguous numpy array; `NotPlainData` if it
    cannot cross."""
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


def dtype_of(code: int) -> "torch.dtype":
    """The torch dtype at an index in `DTYPES`."""
    if not _TORCH:
        _learn_dtypes()
    return _TORCH[code]


_CODES: "dict[torch.dtype, int]" = {}  # torch dtype -> its place in DTYPES; filled when torch is there
_TORCH: "list[torch.dtype]" = []
_NUMPY = frozenset(
    DTYPES.index(name) for name in ("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
)


def _learn_dtypes() -> None:
    if not _TORCH:
        import torch

        _TORCH.extend(getattr(torch, name) for name in DTYPES)
        _CODES.update({dtype: code for code, dtype in enumerate(_TORCH)})
