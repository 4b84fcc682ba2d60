"""Tensors that come back: whether one is the right one up to rounding, and what is wrong with it in words."""

import math
import random
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from course_grader.exercises.values import describe, is_row
from course_grader.judging.mistakes import Fault, Wrong

RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 3e-2}
"""Of a tensor's largest number: a chain of a few short sums, by the dtype of the sums."""


class OtherTensors(random.Random):
    """The draws of a seed, so the same cases with the same shapes, but other numbers in the tensors that `coin_of`
    draws."""


def coin_of(rng: random.Random) -> torch.Generator:
    """A generator of tensors that follows from the seed of the cases."""
    return torch.Generator().manual_seed(rng.randrange(2**31) + isinstance(rng, OtherTensors))


def normal(coin: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Secret normal numbers, drawn in double precision."""
    return torch.randn(shape, generator=coin, dtype=torch.float64).to(dtype)


def nbytes(tensor: Tensor) -> int:
    """Bytes that a tensor's elements take on the wire."""
    return tensor.numel() * tensor.element_size()


def kind_text(tensor: Tensor) -> str:
    """Dtype and shape in words."""
    return f"{str(tensor.dtype).removeprefix('torch.')} in shape {tuple(tensor.shape)}"


def same(got: object, want: Tensor) -> bool:
    """Whether this is the right tensor bit by bit, dtype and shape included."""
    return isinstance(got, Tensor) and got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)


def same_data(got: object, want: object) -> bool:
    """Whether plain data are equal in every place, tensors bit by bit, and of the same types."""
    if isinstance(want, Tensor):
        return same(got, want)
    if type(got) is not type(want):
        return False
    if type(got) is dict and type(want) is dict:
        return got.keys() == want.keys() and all(same_data(got[key], want[key]) for key in want)
    if is_row(got) and is_row(want):
        return len(got) == len(want) and all(map(same_data, got, want))
    return bool(got == want)


def same_tensors(one: object, two: object) -> bool:
    """Whether plain data hold the same tensors in the same order."""
    if isinstance(one, Tensor) or isinstance(two, Tensor):
        if not (isinstance(one, Tensor) and isinstance(two, Tensor)) or kind_text(one) != kind_text(two):
            return False
        return torch.allclose(one, two, rtol=0.0, atol=0.0, equal_nan=True)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        one, two = list(one.values()), list(two.values())
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same_tensors, one, two))
    return True


def squares(tensors: Iterable[Tensor]) -> float:
    """The sum of all squares in float64."""
    return sum(each.double().square().sum().item() for each in tensors)


def largest(tensors: Sequence[Tensor | None]) -> float:
    """The largest absolute value in any of the tensors."""
    return max((each.double().abs().max().item() for each in tensors if each is not None and each.numel()), default=0.0)


def close(got: object, want: Tensor, rel: float | None = None, floor: float = 0.0) -> bool:
    """Whether a tensor has the right dtype, shape and numbers up to `rel` of the largest number of `want`.

    `rel` follows from the dtype by default. `floor` is the least scale: the largest number of the tensors that this one
    is a difference of.
    """
    if not isinstance(got, Tensor) or got.shape != want.shape or got.dtype != want.dtype:
        return False
    if not want.numel():
        return True
    if not want.is_floating_point():
        return torch.equal(got, want)
    scale = max(largest([want]), floor) or 1.0
    off = (got.double() - want.double()).abs().max().item()
    return math.isfinite(off) and off <= (RELATIVE[want.dtype] if rel is None else rel) * scale


def all_close(got: object, want: Sequence[Tensor | None], rel: float | None = None, floor: float = 0.0) -> bool:
    """Whether these are the right tensors in order, and None where `want` has None."""
    if not is_row(got) or len(got) != len(want):
        return False
    pairs = zip(got, want, strict=True)
    return all(one is None if two is None else close(one, two, rel, floor) for one, two in pairs)


def factor(got: Tensor, want: Tensor) -> float | None:
    """The number by which every element of `got` is too large, or None where there is no such number."""
    a, b = got.double().reshape(-1), want.double().reshape(-1)
    norm = (b @ b).item()
    if not norm:
        return None
    scale = (a @ b).item() / norm
    off = (a - scale * b).abs().max().item()
    fits = math.isfinite(scale) and abs(scale) > 1e-9 and off <= 1e-4 * abs(scale) * b.abs().max().item()
    return scale if fits else None


def off_text(got: Tensor, want: Tensor) -> str:
    """By how much a tensor that is nearly right is off, against what its dtype explains."""
    off = (got.double() - want.double()).abs().max().item() / max(largest([want]), 1e-30)
    dtype = str(want.dtype).removeprefix("torch.")
    return f"is off by {100 * off:.2g} % of its largest number, more than the rounding of {dtype} explains."


def kind_fault(where: str, got: object, want: Tensor, hint: str = "") -> Fault | None:
    """What is wrong with the type, dtype or shape of a value; `hint` says what to do about the last two."""
    if got is None:
        return (
            "returned-none",
            f"{where} is None; a tensor in shape {tuple(want.shape)} is expected. Is a `return` missing?",
        )
    if not isinstance(got, Tensor):
        return "not-a-tensor", f"{where} is {describe(got)}; a tensor is expected."
    if got.dtype != want.dtype or got.shape != want.shape:
        return "another-kind", f"{where} is {kind_text(got)}; expected {kind_text(want)}. {hint}".strip()
    return None


def tensor_fault(
    where: str, got: object, want: Tensor, rel: float | None = None, floor: float = 0.0, otherwise: str = ""
) -> Fault | None:
    """What is wrong with one tensor, and how far off it is; a mistake's sentence can follow `where` and a colon."""
    if close(got, want, rel, floor):
        return None
    lead = f"{where}: "
    if fault := kind_fault(where, got, want):
        return Wrong(*fault[:2], lead)
    assert isinstance(got, Tensor)  # `kind_fault` refuses anything else
    if got.is_floating_point() and not torch.isfinite(got).all():
        return Wrong(
            "not-finite",
            f"{where} holds NaN or infinity, as from 0/0, ∞ − ∞, 0 · ∞, an overflow or a tensor that was never filled.",
            lead,
        )
    if close(got, want, 0.01, floor):
        return Wrong("rounded", f"{where} {off_text(got, want)}", lead)
    scale = factor(got, want)
    told = f"is {scale:.4g} times the right one" if scale is not None else "has wrong numbers"
    return Wrong("other-numbers", f"{where} {told}. {otherwise}".strip(), lead)


def not_like(got: object, want: Tensor, rank: int) -> Fault | None:
    """`kind_fault` of a rank's result."""
    return kind_fault(f"Rank {rank}'s result", got, want)
