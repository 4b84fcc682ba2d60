"""Random tensors for chapter 09's small examples."""

import torch
from torch import Tensor


def normal(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Normally distributed tensors of these shapes in double precision, the same on every call."""
    generator = torch.Generator().manual_seed(9)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
