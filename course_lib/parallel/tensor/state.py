"""From the parts to the whole: for checkpoints that any number of ranks can read, and for tests."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.parallel.tensor.model import TensorParallel, stacked
from course_lib.parallel.tensor.partition import Piece, plan


def full_state(model: TensorParallel, dst: int | None = None) -> dict[str, Tensor]:
    """The whole model's state_dict on every rank, or only on `dst` (empty on the others). All ranks call it."""
    whole = gather_full(model, dict(model.named_parameters()), dst)
    if model.config.tied and whole:
        whole["head.weight"] = whole["embedding.weight"]
    return whole


def full_gradients(model: TensorParallel) -> dict[str, Tensor]:
    """The whole model's gradients on every rank, by their names in the whole model, of parameters that have one. After
    `finish()`."""
    return gather_full(model, {name: each.grad for name, each in model.named_parameters() if each.grad is not None})


def gather_full(model: TensorParallel, tensors: Mapping[str, Tensor], dst: int | None = None) -> dict[str, Tensor]:
    """Whole tensors of pieces that are split like the parameters of the same names: weights, gradients, an optimizer's
    moments."""
    comm = model.comm
    plans = [
        plan(model.config, comm.size, rank, model.sequence_parallel, model.vocab_parallel) for rank in range(comm.size)
    ]
    whole: dict[str, Tensor] = {}
    for name, held in model.pieces.items():
        if name not in tensors:
            continue
        for place, (offset, piece) in enumerate(stacked(held)):
            own = tensors[name].detach().narrow(0, offset, piece.local_shape[0])
            if piece.dim is None:
                parts = [own]
            else:
                parts = _collect(model, own, piece.dim, [each[name][place] for each in plans], dst)
            if dst is None or comm.rank == dst:
                whole[piece.name] = own.clone() if piece.dim is None else torch.cat(parts, piece.dim)
    return whole


def _collect(model: TensorParallel, own: Tensor, dim: int, held: list[Piece], dst: int | None) -> list[Tensor]:
    """Every rank's part in order, copies once; all are sent with the length of the longest."""
    comm = model.comm
    longest = max(piece.stop - piece.start for piece in held)
    room = [0, 0] * (own.ndim - dim - 1) + [0, longest - own.shape[dim]]
    padded = F.pad(own, room).contiguous()
    parts = [torch.empty_like(padded) for _ in range(comm.size)]
    if dst is None:
        comm.all_gather(parts, padded)
    else:
        comm.gather(padded, parts if comm.rank == dst else None, dst)
    step = held[0].copies
    return [
        part.narrow(dim, 0, piece.stop - piece.start) for part, piece in zip(parts[::step], held[::step], strict=True)
    ]
