"""torch's distributed checkpoint format (DCP), written from flat pieces and read into them.

DCP stores boxes of a tensor: offsets and sizes for each dimension. A flat stretch of elements is several boxes: the
rest of a first row, whole rows, the beginning of a last one. So what ranks hold as flat shards becomes a checkpoint
that `torch.distributed.checkpoint.load` reads into any model, DTensors of any mesh included, and what torch saved can
be read into flat shards of any number of ranks. Planning goes through the folder, not through collectives: it works in
a thread and on one process.
"""

import io
import math
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType

from course_lib.model.checkpoint.pieces import Piece
from course_lib.model.checkpoint.store import CheckpointError

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes


def boxes_of(shape: Sequence[int], start: int, stop: int) -> list[Box]:
    """Elements `start` to `stop` of a flattened tensor as boxes, in order; at most 2 × dimensions − 1 of them.

    A tensor without dimensions is one box of none.
    """
    shape = tuple(shape)
    if not 0 <= start <= stop <= math.prod(shape):
        raise ValueError(f"elements {start} to {stop} of shape {list(shape)} do not exist.")
    if start == stop:
        return []
    if len(shape) <= 1:
        return [((start,), (stop - start,))] if shape else [((), ())]
    row = math.prod(shape[1:])
    first, last = -(-start // row), stop // row  # whole rows
    if first > last:  # inside one row
        return [_in_row(start // row, box) for box in boxes_of(shape[1:], start % row, stop - start // row * row)]
    found = [_in_row(first - 1, box) for box in boxes_of(shape[1:], start % row, row)] if start % row else []
    if first < last:
        found.append(((first, *(0 for _ in shape[1:])), (last - first, *shape[1:])))
    if stop % row:
        found += [_in_row(last, box) for box in boxes_of(shape[1:], 0, stop % row)]
    return found


def _in_row(row: int, box: Box) -> Box:
    return (row, *box[0]), (1, *box[1])


def write_torch(folder: str | Path, rank: int, pieces: Iterable[Piece]) -> list[str]:
    """Write this rank's pieces; the names of the files. Rank 0 then calls `finish_torch`, once all ranks are done."""
    folder, planner = Path(folder), _Save(pieces)
    writer = FileSystemWriter(folder, sync_files=True)
    writer.set_up_storage_writer(rank == 0, rank=rank, use_collectives=True)
    plan = writer.prepare_local_plan(SavePlan(planner.items))
    plan = writer.prepare_global_plan([*(SavePlan([]) for _ in range(rank)), plan])[rank]
    results = writer.write_data(plan, planner).value()
    (folder / f".plan-{rank}").write_bytes(pickle.dumps((SavePlan(planner.items), results)))
    return sorted({each.storage_data.relative_path for each in results})


def finish_torch(folder: str | Path, ranks: int) -> str:
    """On rank 0: write torch's `.metadata` from all ranks' plans; its name. CheckpointError if a rank's plan is
    missing."""
    folder, plans, results = Path(folder), [], []
    for rank in range(ranks):
        path = folder / f".plan-{rank}"
        if not path.exists():
            raise CheckpointError("missing part", f"{folder.name}: rank {rank} of {ranks} has not written its part.")
        plan, written = pickle.loads(path.read_bytes())
        plans.append(plan)
        results.append(written)
    _, metadata = create_default_global_save_plan(plans, rewrite_index_hints=False)
    writer = FileSystemWriter(folder)
    writer.set_up_storage_writer(True, rank=0, use_collectives=True)
    writer.finish(metadata, results)
    for rank in range(ranks):
        (folder / f".plan-{rank}").unlink()
    return ".metadata"


class _Save(SavePlanner):
    """Hands torch's writer the boxes of our pieces."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.items: list[WriteItem] = []
        self.values: dict[MetadataIndex, Tensor] = {}
        for piece in pieces:
            at = 0
            for offsets, sizes in boxes_of(piece.shape, piece.start, piece.stop):
                index = MetadataIndex(piece.name, torch.Size(offsets))
                count = math.prod(sizes)
                chunk = ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
                properties = TensorProperties(dtype=piece.values.dtype)
                data = TensorWriteData(chunk=chunk, properties=properties, size=torch.Size(piece.shape))
                self.items.append(WriteItem(index=index, type=WriteItemType.SHARD, tensor_data=data))
                self.values[index] = piece.values[at : at + count].view(sizes)
                at += count

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        return self.values[write_item.index].detach()

    def set_up_planner(self, *args: object, **kwargs: object) -> None: ...

    def create_local_plan(self) -> SavePlan:
        return SavePlan(self.items)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        return create_default_global_save_plan(all_plans)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan
