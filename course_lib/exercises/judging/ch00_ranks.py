"""What chapter 00's two cluster exercises share: unkind machines, secret data, and what a result may lack."""

import math
import random
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.kernel import Adversary
from course_lib.exercises.judging import describe
from course_lib.exercises.judging.faults import Fault as Fault
from course_lib.exercises.judging.faults import verdict as verdict

STRICT = Adversary(depth=0, order="stream")
# How unkind a machine may be within what the semantics allow: buffers or none, bytes that move early or late.
ADVERSARIES = tuple(Adversary(depth=depth, late=late) for depth in (0, 1, math.inf) for late in (False, True))[1:]



def coin_of(rng: random.Random) -> torch.Generator:
    """A generator of tensors, seeded by the cases' own."""
    return torch.Generator().manual_seed(rng.randrange(2**31))


def nbytes(tensor: Tensor) -> int:
    """Bytes that a tensor's elements take on the wire."""
    return tensor.numel() * tensor.element_size()


def shape_text(tensor: Tensor) -> str:
    """Dtype and shape in words."""
    return f"{str(tensor.dtype).removeprefix('torch.')} in shape {tuple(tensor.shape)}"


def same(got: Any, want: Tensor) -> bool:
    """Whether a result is this tensor: dtype, shape and every element."""
    return (isinstance(got, Tensor) and got.dtype == want.dtype and got.shape == want.shape
            and torch.equal(got, want))  # fmt: skip


def not_like(got: Any, want: Tensor, rank: int) -> Fault | None:
    """What is wrong with the kind, dtype or shape of a rank's result."""
    if got is None:
        return "returned-none", f"Rank {rank} returned None: is a `return` missing on its path?"
    if not isinstance(got, Tensor):
        return "not-a-tensor", f"Rank {rank} returned {describe(got)}; return the tensor."
    if got.dtype != want.dtype or got.shape != want.shape:
        return "another-kind", (f"Rank {rank} returned {shape_text(got)}, where {shape_text(want)} was to come. "
                                "Receive into a tensor of the same shape and dtype.")  # fmt: skip
    return None
