"""Silent data corruption: wrong bits without an error, and three ways to notice them.

*Checksums* compare what should be equal: replicas after a step, a file and its record. *Replay* runs a deterministic
step twice from the same state; it finds a device that computes wrongly now and then. A *checked product* carries one
more row, whose sum must agree.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_AS_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def flip_bit(tensor: Tensor, element: int, bit: int) -> None:
    """Flip one bit of one element, in place. `element` counts through the flattened tensor, bit 0 is the lowest.

    ValueError for an element or a bit that does not exist. The tensor must be contiguous.
    """
    if not 0 <= element < tensor.numel() or not 0 <= bit < 8 * tensor.element_size():
        raise ValueError(
            f"element {element}, bit {bit}: there are {tensor.numel()} elements of {8 * tensor.element_size()} bits."
        )
    if not tensor.is_contiguous():
        raise ValueError("The tensor is not contiguous: its elements do not lie in order.")
    data = tensor.detach().view(-1).view(torch.uint8)
    data[element * tensor.element_size() + bit // 8] ^= 1 << bit % 8  # little-endian, as on every device of this course


def checksum(tensors: Iterable[Tensor]) -> int:
    """One 64-bit number for the bits of all tensors, in order: Σ (2i + 1) xᵢ modulo 2⁶⁴ over their bits as integers.

    Any single flipped bit changes it, because an odd factor times a power of two below 2⁶⁴ is never 0. Swapped elements
    change it too. It is computed where the tensor lies and reads it once; NaNs count by their bits.
    """
    total, count = 0, 0
    for tensor in tensors:
        flat = tensor.detach().contiguous().view(-1)
        if not flat.numel():
            continue
        kind = torch.uint8 if flat.dtype == torch.bool else _AS_INTEGERS[min(flat.element_size(), 8)]
        bits = flat.view(kind).to(torch.int64)
        factors = torch.arange(count, count + bits.numel(), device=bits.device, dtype=torch.int64) * 2 + 1
        total += int((bits * factors).sum())  # int64 arithmetic wraps, as wanted
        count += bits.numel()
    return total % 2**64


@dataclass(frozen=True)
class Vote:
    """What the replicas' checksums say."""

    odd: tuple[int, ...]  # ranks that differ from the majority
    decided: bool  # whether more than half agree; if not, the checksums show that something is wrong but not where


def vote(checksums: Sequence[int]) -> Vote:
    """The replicas that differ from more than half of them. Two replicas can detect a difference, but not tell who is
    right."""
    if not checksums:
        raise ValueError("There are no checksums to compare.")
    value, count = Counter(checksums).most_common(1)[0]
    if 2 * count <= len(checksums):
        return Vote((), False)
    return Vote(tuple(rank for rank, each in enumerate(checksums) if each != value), True)
