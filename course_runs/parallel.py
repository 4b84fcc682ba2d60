"""A layout applied to a model, by PyTorch's own parts: DTensor's plans, `fully_shard`, `DistributedDataParallel`."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from course_lib.model.transformer import Config
from course_runs import context, eight_bits
from course_runs.layouts import RunLayout
from course_runs.model import Piece, build
from course_runs.process_group import Place

COLUMNS = ("attention.wq", "attention.wk", "attention.wv", "mlp.gate", "mlp.up")
ROWS = ("attention.wo", "mlp.down")
VIEW = r"FSDP2-wrapped module \(FSDPPiece\) returned a view tensor"  # how a warning of FSDP2 begins


@dataclass(frozen=True)
class Choices:
    """What else is asked of a run."""

    dtype: torch.dtype  # of the arithmetic; weights, gradients' sums and the optimizer are fp32
    reshard: bool = True  # whether FSDP frees a unit's weights after its forward pass
    compiled: bool = False
    fused: bool | None = None  # AdamW as one kernel for each group; None: on a GPU only
    fp8: bool = False  # the blocks' matrix products on 8-bit numbers


class RunMesh:
    """The ranks as a mesh with one axis for each degree above one, and always "fsdp".

    Context-parallel ranks hold the same weights. They are part of the axis "fsdp" where weights are sharded, else of
    "ddp", so that gradients are averaged over them as well. The axis "cp" alone belongs to a second mesh, over which
    keys and values are gathered.
    """

    def __init__(self, layout: RunLayout, device: str) -> None:
        sizes = {"pp": layout.pp, "ddp": layout.replicas, "fsdp": layout.shards, "tp": layout.tp}
        axes = [axis for axis in sizes if sizes[axis] > 1 or axis == "fsdp"]
        self.weights = init_device_mesh(device, tuple(sizes[axis] for axis in axes), mesh_dim_names=tuple(axes))
        self.context = context.mesh_of(layout, device) if layout.cp > 1 else None

    def __getitem__(self, axes: str | tuple[str, ...]) -> DeviceMesh:
        return self.context if axes == "cp" and self.context is not None else self.weights[axes]


def mesh_of(layout: RunLayout, place: Place) -> RunMesh:
    """The mesh of a layout on the devices of `place`; all ranks call it."""
    return RunMesh(layout, place.device.type)


def pieces_here(config: Config, layout: RunLayout, mesh: RunMesh, place: Place, seed: int = 0) -> list[Piece]:
    """This rank's pieces of the model: one, or one for each chunk of an interleaved pipeline."""
    stage = mesh["pp"].get_local_rank() if layout.pp > 1 else 0
    pieces = layout.pp * layout.chunks
    return [build(config, place.device, stage + chunk * layout.pp, pieces, seed) for chunk in range(layout.chunks)]


def spread(model: Piece, layout: RunLayout, mesh: RunMesh, choices: Choices) -> nn.Module:
    """The model with its matrices split, its state sharded or its gradients averaged, as the layout says."""
    if choices.fp8:
        eight_bits.convert(model)
    if layout.cp > 1:
        cp = mesh["cp"]
        context.spread(model, context.Context(cp.get_local_rank(), layout.cp, cp.get_group()))
    if layout.tp > 1:
        _split(model, mesh["tp"], layout.sp)
    if choices.compiled:
        for block in model.blocks.values():  # torch 2.13 cannot compile DTensors with dynamic shapes
            block.compile(dynamic=False)
    if layout.fsdp > 1:
        return _shard(model, layout, mesh, choices)
    if layout.replicas > 1 and layout.pp == layout.tp == 1:
        return DistributedDataParallel(
            model, process_group=mesh["ddp"].get_group(), gradient_as_bucket_view=True, broadcast_buffers=False
        )
    return model


class ByVocabulary(RowwiseParallel):
    """`RowwiseParallel` of the embedding that waits for its sum over ranks.

    Torch's own hands on an `AsyncCollectiveTensor`, a sum that is waited for at its first use. A compiled block gives
    such an input no gradient, and the embedding's backward pass then fails (torch 2.13; pull request 179506 of
    pytorch/pytorch describes the cause).
    """

    @staticmethod
    def _prepare_output_fn(
        output_layouts: Sequence[Placement], use_local_output: bool, mod: object, outputs: DTensor, device_mesh: object
    ) -> Tensor:
        return outputs.redistribute(placements=output_layouts).to_local()


def _split(model: Piece, mesh: DeviceMesh, sequence: bool) -> None:
    """Megatron's cut: columns, then rows, one all-reduce each way for each pair; embedding and head by the vocabulary.

    Attention and MLP take their input as one DTensor, so that the gradients which their column matrices send back to it
    are added up first and cross the ranks once. `sequence`: between the pairs each rank keeps its share of the tokens,
    and a reduce-scatter and an all-gather take the place of each all-reduce. Korthikanti et al. (2022).
    """
    tokens = Shard(1) if sequence else Replicate()  # of what lies between the matrices, (B, S, H)
    whole = PrepareModuleInput(input_layouts=tokens, desired_input_layouts=Replicate())
    plan = {name: ColwiseParallel() for name in COLUMNS} | {
        name: RowwiseParallel(output_layouts=tokens) for name in ROWS
    }
    norms = {"norm1": SequenceParallel(), "norm2": SequenceParallel()} if sequence else {}
    for block in model.blocks.values():
        parallelize_module(block, mesh, {**norms, "attention": whole, "mlp": whole, **plan})
    if model.embedding is not None:
        parallelize_module(model, mesh, {"embedding": ByVocabulary(input_layouts=Replicate(), output_layouts=tokens)})
    if model.head is not None:
        last = {"norm": SequenceParallel()} if sequence else {}
        parallelize_module(
            model, mesh, {**last, "head": ColwiseParallel(input_layouts=tokens, output_layouts=Replicate())}
        )


def _shard(model: Piece, layout: RunLayout, mesh: RunMesh, choices: Choices) -> nn.Module:
    """FSDP2: a unit for each block, and one for what is left; with replicas, HSDP."""
    if layout.tp > 1:  # DTensor hands the head's logits over as a view of its own tensor, and the loss writes into none
        warnings.filterwarnings("ignore", VIEW, UserWarning)
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard  # `place.join` refuses older ones

    where = mesh["ddp", "fsdp"] if layout.replicas > 1 else mesh["fsdp"]
    policy = MixedPrecisionPolicy(param_dtype=choices.dtype, reduce_dtype=torch.float32)
    for block in model.blocks.values():
        fully_shard(block, mesh=where, mp_policy=policy, reshard_after_forward=choices.reshard)
    # what is used last is used first in the backward pass
    fully_shard(model, mesh=where, mp_policy=policy, reshard_after_forward=False)
    if where.device_type == "cpu":  # up to torch 2.8, gloo returns the sum where the mean is asked for
        for unit in model.modules():
            if isinstance(unit, FSDPModule):
                unit.set_force_sum_reduction_for_comms(True)
    return model


def optimizer_groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, list[nn.Parameter]]]:
    """Parameters in groups of one mesh each; plain tensors have a group of their own.

    A fused or foreach optimizer gives each group to one operator, and DTensor's operators accept one mesh: with tensor
    parallelism the matrices are DTensors and the norms plain tensors, with FSDP as well the norms lie on another mesh.
    """
    groups: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in parameters:
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return [{"params": group} for group in groups.values()]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a tensor that may be shared out."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def is_partial(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one rank's share of a sum over ranks."""
    return any(placed.is_partial() for placed in getattr(tensor, "placements", ()))


def parts_of(tensor: torch.Tensor) -> tuple[str, ...]:
    """The names of the mesh axes over which a tensor is cut."""
    placements, mesh = getattr(tensor, "placements", None), getattr(tensor, "device_mesh", None)
    if placements is None or mesh is None:
        return ()
    names = mesh.mesh_dim_names or ()
    return tuple(name for name, placed in zip(names, placements, strict=True) if not placed.is_replicate())
