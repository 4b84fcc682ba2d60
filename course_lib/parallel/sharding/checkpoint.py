"""A checkpoint in parts: every rank writes what it holds, and any number of ranks can read it, each only what it will
hold.

A part consists of stretches of parameters. The index records for every stretch which elements of which parameter it
contains, and nothing about rows, units or ranks; a reader looks up the stretches that overlap its own. No rank ever
holds a whole model. Left out: names that distinguish saves, and saving while training continues.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.parallel.sharding.flat_parameter import Row
from course_lib.parallel.sharding.fsdp import FullySharded
from course_lib.parallel.sharding.master import MasterOptimizer
from course_lib.parallel.sharding.zero import Zero

Model = FullySharded | Zero
Optimizer = torch.optim.Optimizer | MasterOptimizer


class Stretch(NamedTuple):
    """Elements `start` to `stop` of a tensor (a parameter, or the state of one), at byte `offset` of a rank's file."""

    what: str  # "weight", or the optimizer's name for it: "exp_avg"
    name: str
    start: int
    stop: int
    dtype: str
    rank: int
    offset: int


def save(folder: str | Path, model: Model, optimizer: Optimizer) -> None:
    """Write `part-<rank>.bin` and its index; of several replicas, only the first writes. All ranks call it; the folder
    is shared."""
    folder, rank = Path(folder), model.comm.rank
    copies = getattr(model, "replicas", None)
    if copies is None or copies.rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        stretches, offset = [], 0
        steps: dict[str, float] = {}
        with (folder / f"part-{rank}.bin").open("wb") as file:
            for what, name, start, values in _held(model, optimizer, steps):
                data = values.contiguous().reshape(-1).view(torch.uint8).cpu().numpy().tobytes()
                stop = start + values.numel()
                stretches.append(
                    Stretch(what, name, start, stop, str(values.dtype).removeprefix("torch."), rank, offset)
                )
                offset += file.write(data)
        shapes = {name: list(shape) for row in model.rows for name, shape in row.shapes.items()}
        shapes |= {name: list(each.shape) for name, each in _rest(model).items()}
        index = {"ranks": model.comm.size, "shapes": shapes, "steps": steps, "stretches": stretches}
        (folder / f"part-{rank}.json").write_text(json.dumps(index))
    for comm in (model.comm, copies):
        if comm is not None:
            comm.barrier()


def _held(model: Model, optimizer: Optimizer, steps: dict[str, float]) -> Iterator[tuple[str, str, int, Tensor]]:
    """What this rank writes: (what, name, first element, values). Adds the optimizer's plain numbers to `steps`."""
    for row in model.rows:
        tensors = {"weight": row.shard.detach()}
        param, stepped = _stepped(row, optimizer)
        if param is not row.shard:
            tensors["master"] = param.detach()
        for key, value in stepped.state.get(param, {}).items() if stepped else ():
            if isinstance(value, Tensor) and value.shape == row.shard.shape:
                tensors[key] = value.detach()
            else:
                steps[key] = float(value)
        for piece in row.flat.pieces(model.comm.rank):
            for what, tensor in tensors.items():
                yield what, piece.name, piece.start, tensor[piece.at : piece.at + piece.stop - piece.start]
    if model.comm.rank == 0:
        for name, tensor in _rest(model).items():
            yield "weight", name, 0, tensor


def _rest(model: Model) -> dict[str, Tensor]:
    """Tensors that are whole on every rank: frozen parameters in stages 1 and 2, and buffers."""
    sharded, saved = {name for row in model.rows for name in row.shapes}, model.module.state_dict()
    whole = (*model.module.named_parameters(), *model.module.named_buffers())
    return {name: each.detach() for name, each in whole if name in saved and name not in sharded}


def _stepped(row: Row, optimizer: Optimizer) -> tuple[nn.Parameter, torch.optim.Optimizer | None]:
    """The parameter that is updated for a row, and the optimizer that updates it."""
    if not row.shard.requires_grad:
        return row.shard, None
    if not isinstance(optimizer, MasterOptimizer):
        return row.shard, optimizer
    place = next(at for at, each in enumerate(optimizer.shards) if each is row.shard)
    return optimizer.masters[place], optimizer.optimizers[place]


def load(folder: str | Path, model: Model, optimizer: Optimizer) -> int:
    """Fill the shards and the optimizer from a checkpoint of any number of ranks; return the bytes that this rank read.

    ValueError if the checkpoint is of another model, or if a part of it is missing.
    """
    stored = _Stored(Path(folder))
    for row in model.rows:
        if wrong := [name for name, shape in row.shapes.items() if stored.shapes.get(name) != list(shape)]:
            raise ValueError(
                f"{folder}: {wrong[0]} has shape {stored.shapes.get(wrong[0], 'none')} in the checkpoint and "
                f"{list(row.shapes[wrong[0]])} in this model; build the model that was saved."
            )
        _fill(stored, row, "weight", row.shard.detach(), model.comm.rank)
        param, stepped = _stepped(row, optimizer)
        if stepped is not None:
            _fill_state(stored, row, param, stepped, model.comm.rank)
    for name, tensor in _rest(model).items():
        tensor.copy_(stored.read("weight", name, 0, tensor.numel()).view(tensor.shape))
    if isinstance(model, Zero):
        model.gather()
    return stored.bytes_read


def _fill(stored: _Stored, row: Row, what: str, part: Tensor, rank: int) -> None:
    for piece in row.flat.pieces(rank):
        part[piece.at : piece.at + piece.stop - piece.start] = stored.read(what, piece.name, piece.start, piece.stop)


def _fill_state(stored: _Stored, row: Row, param: nn.Parameter, optimizer: torch.optim.Optimizer, rank: int) -> None:
    if param is not row.shard and "master" in stored.states:
        _fill(stored, row, "master", param.detach(), rank)
    elif param is not row.shard:
        param.detach().copy_(row.shard)  # the checkpoint has no master copy
    state = optimizer.state[param]
    for what in stored.states - {"master"}:
        state[what] = torch.zeros_like(param)
        _fill(stored, row, what, state[what], rank)
    for key, value in stored.steps.items():
        state[key] = torch.tensor(value)


class _Stored:
    """A checkpoint's stretches, indexed by what they contain."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bytes_read = folder, 0
        if not (folder / "part-0.json").exists():
            raise ValueError(f"{folder} holds no checkpoint: part-0.json is missing.")
        first = json.loads((folder / "part-0.json").read_text())
        self.shapes, self.steps = first["shapes"], dict(first["steps"])
        self.stretches: dict[tuple[str, str], list[Stretch]] = {}
        for rank in range(first["ranks"]):
            index = json.loads((folder / f"part-{rank}.json").read_text())
            self.steps |= index["steps"]
            for each in map(Stretch._make, index["stretches"]):
                self.stretches.setdefault((each.what, each.name), []).append(each)
        self.states = {what for what, _ in self.stretches} - {"weight"}

    def read(self, what: str, name: str, start: int, stop: int) -> Tensor:
        """Elements `start` to `stop`, from the files that hold them; reads only those bytes."""
        found = []
        for each in sorted(self.stretches.get((what, name), ()), key=lambda one: one.start):
            first, last = max(start, each.start), min(stop, each.stop)
            if first < last:
                dtype = getattr(torch, each.dtype)
                with (self.folder / f"part-{each.rank}.bin").open("rb") as file:
                    file.seek(each.offset + (first - each.start) * dtype.itemsize)
                    data = bytearray(file.read((last - first) * dtype.itemsize))
                self.bytes_read += len(data)
                found.append(torch.frombuffer(data, dtype=dtype))
        if sum(map(len, found)) != stop - start:
            raise ValueError(
                f"{self.folder}: elements {start} to {stop} of {name} ({what}) are incomplete; was every "
                f"rank's part kept?"
            )
        return torch.cat(found)
