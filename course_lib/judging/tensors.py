"""What judges ask of the tensors that ranks return, and the coin from which their data are drawn."""

import random
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import describe
from course_lib.judging.faults import Fault


def coin_of(rng: random.Random) -> torch.Generator:
    """A generator of tensors that follows from the seed of the cases."""
    return torch.Generator().manual_seed(rng.randrange(2**31))


def nbytes(tensor: Tensor) -> int:
    """Bytes that a tensor's elements take on the wire."""
    return tensor.numel() * tensor.element_size()


def same(got: Any, want: Tensor) -> bool:
    """Whether this is the tensor that is wanted, dtype and shape included."""
    return isinstance(got, Tensor) and got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)


def not_like(got: Any, want: Tensor, rank: int, how: str = "") -> Fault | None:
    """What is wrong with the kind, dtype or shape of a rank's result; `how` says what to do about the last two."""
    if got is None:
        return "returned-none", f"Rank {rank} returned None: is a `return` missing on its path?"
    if not isinstance(got, Tensor):
        return "not-a-tensor", f"Rank {rank} returned {describe(got)}; return the tensor."
    if got.dtype != want.dtype or got.shape != want.shape:
        return "another-kind", f"Rank {rank} returned {_kind(got)}, where {_kind(want)} was to come. {how}".strip()
    return None


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} in shape {tuple(tensor.shape)}"
