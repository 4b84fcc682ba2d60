"""Chapter 02's sweep over checkpointing choices: some layers alone, or segments of several layers, peak against
FLOPs."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from course_chapters.ch02.checkpointing_curve import draw_curve
from course_lib.draw.sheets import Sheet
from course_lib.model import transformer
from course_lib.model.accounting import Accounting

LAYERS, INSIDE = 16, 9  # an MLP keeps nine times its input: x, and two tensors of four times its width
Checkpoint = Callable[..., torch.Tensor]


def measured_pass(
    checkpoint: Checkpoint, layers: Sequence[nn.Module], length: int, covered: int, x: torch.Tensor
) -> tuple[float, int]:
    """Peak in units of x, and FLOPs, of one pass in segments of `length` layers; layers from `covered` on keep
    everything."""
    with Accounting() as account:
        account.adopt(layers)
        y = x
        for start in range(0, len(layers), length):
            segment = nn.Sequential(*layers[start : start + length])
            y = checkpoint(segment, y) if start < covered else segment(y)
        y.backward(torch.ones_like(y))
    roles = account.peak_roles()
    return (account.peak_bytes - roles["parameters"] - roles["gradients"]) / x.nbytes, account.flops


def memory_against_compute(checkpoint: Checkpoint) -> Sheet:
    """Peak and FLOPs of a stack of MLPs with some layers checkpointed alone, and in segments of c layers, next to the
    formulas."""
    x = torch.randn(1024, 32, requires_grad=True)
    alone = {
        f"{n} of {LAYERS}": (1, n, n + INSIDE * (LAYERS - n) if n < LAYERS else LAYERS + INSIDE)
        for n in (0, 4, 8, 12, 16)
    }
    segments = {f"c = {c}": (c, LAYERS, LAYERS / c + c * INSIDE) for c in (2, 4, 8, 16)}
    points = {}
    for name, (length, covered, formula) in (alone | segments).items():
        layers = [transformer.MLP(transformer.Config(hidden=32, gated=False)) for _ in range(LAYERS)]
        points[name] = (*measured_pass(checkpoint, layers, length, covered, x), formula)
    return draw_curve(points)
