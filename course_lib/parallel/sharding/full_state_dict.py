"""Whole tensors by name, for tests and for reading a model. Every rank gets all of them, so not for large models."""

from torch import Tensor

from course_lib.parallel.sharding.flat_parameter import Row, gradient_of
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.sharding.zero import Zero


def full_state(model: FullySharded | Zero) -> dict[str, Tensor]:
    """Every whole parameter in the dtype of the shards, by its name in the unsharded model. All ranks call it."""
    if isinstance(model, Zero):
        return {name: each.detach().clone() for name, each in model.module.named_parameters()}
    return {name: each for row in model.rows for name, each in _gather(row, row.shard.detach()).items()}


def full_gradients(model: FullySharded | Zero) -> dict[str, Tensor]:
    """Every whole gradient of trained parameters, by name. Call it after `finish()`, on all ranks."""
    found: dict[str, Tensor] = {}
    for row in model.rows:
        if row.shard.requires_grad:
            grad = gradient_of(row.shard)
            assert grad is not None
            found |= _gather(row, grad)
    return found


def _gather(row: Row, part: Tensor) -> dict[str, Tensor]:
    full = part.new_empty(row.flat.padded)
    row.comm.all_gather_into_tensor(full, part)
    return dict(zip(row.shapes, row.views(full), strict=True))
