"""Bytes that a rank hands to its communication library, counted call by call while a step runs.

Every collective of torch passes its dispatcher, from Python, from DDP's reducer and from FSDP alike; a dispatch mode
sees it with its tensors. What is counted is what a ring would send of it, so that a count and a formula mean the same.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from course_runs.ring_bytes import ring_sent

if TYPE_CHECKING:  # newer than the oldest torch
    from torch.distributed.distributed_c10d import GroupName

# Name of the operator in torch -> what it is.
_KINDS = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "_allgather_base_": "all_gather",
    "allgather_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "send": "send",
    "broadcast_": "broadcast",
    "broadcast": "broadcast",
    "alltoall_base_": "all_to_all",
    "all_to_all_single": "all_to_all",
}
_OTHERS = {"recv_", "wait_tensor", "barrier", "barrier_", "monitored_barrier_", "_wrap_tensor_autograd"}


class Wire(TorchDispatchMode):
    """While open: `sent[kind]` bytes that a ring algorithm sends for each kind of call, `calls[kind]`, and `unknown`
    names."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.unknown: set[str] = set()

    @property
    def total(self) -> int:
        """Bytes sent in all."""
        return sum(self.sent.values())

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        namespace, name = func.namespace, func.__name__.split(".")[0]
        if namespace in ("c10d", "_c10d_functional", "c10d_functional"):
            self._count(name, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _count(self, name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        kind = _KINDS.get(name)
        if kind is None:
            if name not in _OTHERS:
                self.unknown.add(name)
            return
        ranks = _group_ranks([*args, *kwargs.values()])
        whole = _whole_bytes(kind, name, args, ranks)
        self.calls[kind] += 1
        self.sent[kind] += round(ring_sent(kind, whole, ranks))


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [each for part in value for each in _tensors(part)]
    return []


def _whole_bytes(kind: str, name: str, args: Sequence[object], ranks: int) -> float:
    """Bytes of the whole tensor of a call. c10d's operators take outputs first, the functional ones the input only."""
    parts = [_tensors(arg) for arg in args]
    first = sum(t.nbytes for t in parts[0]) if parts else 0
    second = sum(t.nbytes for t in parts[1]) if len(parts) > 1 else 0
    if kind == "all_gather":
        return max(first, second) if second else first * ranks
    return max(first, second)


def _group_ranks(arguments: list[object]) -> int:
    """How many ranks a call's group has, from the group or the name of it among its arguments."""
    for each in arguments:
        if isinstance(each, str):
            try:
                return torch.distributed.distributed_c10d._resolve_process_group(cast("GroupName", each)).size()
            except Exception:  # another string: the operator's name
                continue
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return dist.ProcessGroup.unbox(each).size()
    return dist.get_world_size()
