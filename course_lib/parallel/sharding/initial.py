"""Initial weights that do not depend on the number of ranks. Each rank draws only those it holds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from course_lib.parallel.sharding.flat_parameter import Draw

BLOCK = 4096  # numbers drawn from one generator


@contextmanager
def skeleton() -> Iterator[None]:
    """A context in which modules get parameters with a shape but no memory; each exists in memory only while it is created.

    Buffers keep their memory, because they hold tables that are not learned; `torch.device("meta")` would lose them.
    """

    def bare(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta:
            return None
        return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(bare)  # type: ignore[arg-type]  # the stub forgets that a hook may return
    try:
        yield
    finally:
        hook.remove()


def drawing(std: Callable[[str, torch.Size], float], seed: int = 0, ones: str = "norm") -> Draw:
    """A function that draws any stretch of any parameter.

    Matrices are normal with standard deviation `std(name, shape)`; vectors are 1 if `ones` is in their name, otherwise 0.
    Numbers come in blocks, each from its own generator, seeded by `seed`, the parameter's name and the block's number. So
    element 70,000 of a matrix is the same on any rank, and a rank draws only the blocks it needs.
    """

    def draw(name: str, shape: torch.Size, start: int, stop: int) -> Tensor:
        if len(shape) < 2:
            return torch.full((stop - start,), float(ones in name))
        blocks = range(start // BLOCK, -(-stop // BLOCK))
        rows = [
            torch.randn(BLOCK, generator=torch.Generator().manual_seed(zlib.crc32(f"{seed}/{name}/{block}".encode())))
            for block in blocks
        ]
        first = start - blocks[0] * BLOCK
        return torch.cat(rows)[first : first + stop - start].mul_(std(name, shape))

    return draw
