"""The norm of the whole gradient, of which every rank holds parts, and clipping by it."""

import torch

from course_lib.estimate.units import require
from course_lib.parallel.sharding.flat_parameter import gradient_of
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.sharding.zero import Zero


def gradient_norm(model: FullySharded | Zero) -> torch.Tensor:
    """The norm of the whole model's gradient, the same on every rank, in float64. Call it after `finish()`.

    Squares are added over the ranks that shard one model. Replicas of a part have the same gradient and count once;
    padding is zero.
    """
    total = torch.zeros((), dtype=torch.float64)
    for shard in model.shards():
        if (grad := gradient_of(shard)) is not None:
            total += grad.double().square().sum().cpu()
    model.comm.all_reduce(total)
    return total.sqrt()


def clip_gradients(model: FullySharded | Zero, most: float) -> torch.Tensor:
    """Scale all gradients so that their norm is at most `most`; return the norm before. Like
    `torch.nn.utils.clip_grad_norm_`."""
    norm = gradient_norm(model)
    scale = min(1.0, require("most", most) / (float(norm) + 1e-6))
    for shard in model.shards():
        if (grad := gradient_of(shard)) is not None:
            grad.mul_(scale)
    return norm
