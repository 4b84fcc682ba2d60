"""Initial weights that do not depend on how many ranks there are, drawn where they are held: no rank ever has all of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from course_lib.sharding.rows import Draw

BLOCK = 4096  # numbers that are drawn together


@contextmanager
def skeleton() -> Iterator[None]:
    """Within: modules are made with parameters that have a shape and no memory. One at a time is real, while it is made.

    Buffers stay real: they hold tables, not what is learned. (All under `torch.device("meta")` would lose them.)
    """

    def bare(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta:
            return None
        return nn.Parameter(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(bare)
    try:
        yield
    finally:
        hook.remove()


def drawing(std: Callable[[str, torch.Size], float], seed: int = 0, ones: str = "norm") -> Draw:
    """How to draw any stretch of any parameter: matrices normal with `std(name, shape)`, vectors 1 if `ones` is in their name, else 0.

    Numbers come in blocks, each from a generator of its own, seeded by the seed, the parameter's name and the block's
    number. So element 70,000 of a matrix is the same number whoever draws it, and a rank draws its own blocks only.
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
