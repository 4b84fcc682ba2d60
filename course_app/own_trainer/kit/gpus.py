"""A communicator for ranks on GPUs. Point-to-point messages travel through host memory: NCCL can hang unless they are
batched.

Where ranks share a GPU, which NCCL refuses, collectives travel through host memory too.
"""

import torch
from torch import Tensor

POINT_TO_POINT = ("send", "recv", "isend", "irecv")
COLLECTIVES = (
    *("broadcast", "reduce", "all_reduce", "gather", "scatter", "all_gather"),
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"),
)


def is_far(value: Tensor) -> bool:
    """Whether a tensor is outside the host's memory."""
    return value.device.type != "cpu"


class OnGpus:
    """`comm`, with operations on GPU tensors done on copies in host memory where the docstring above says so."""

    def __init__(self, comm, shared: bool) -> None:
        self._comm, self._shared = comm, shared

    def __getattr__(self, name: str):
        if name in POINT_TO_POINT or (self._shared and name in COLLECTIVES):
            return _Staged(self, name)
        return getattr(self._comm, name)

    def batch_isend_irecv(self, operations):
        """Start several sends and receives at once."""
        return [getattr(self, each.op.__name__)(each.tensor, each.peer, each.tag) for each in operations]

    def new_group(self, ranks) -> "OnGpus":
        """A communicator of these ranks."""
        return OnGpus(self._comm.new_group(ranks), self._shared)


class _Staged:
    """One operation of the communicator on copies in host memory."""

    def __init__(self, comm: OnGpus, name: str) -> None:
        self.comm, self.__name__ = comm, name

    def __call__(self, *given, **named):
        pairs: list[tuple[Tensor, Tensor]] = []

        def near(value):
            if isinstance(value, Tensor) and is_far(value):
                pairs.append((value.detach(), value.detach().cpu()))
                return pairs[-1][1]
            return [near(each) for each in value] if isinstance(value, list | tuple) else value

        given, named = [near(each) for each in given], {name: near(each) for name, each in named.items()}
        result = getattr(self.comm._comm, self.__name__)(*given, **named)
        pairs = pairs if "send" not in self.__name__ else []
        if hasattr(result, "wait"):
            return _StagedWork(result, pairs)
        _back(pairs)
        return result


class _StagedWork:
    """An operation in progress, whose results reach the GPU in `wait`."""

    def __init__(self, work, pairs) -> None:
        self._work, self._pairs = work, pairs

    def wait(self) -> bool:
        """Wait for the operation and return True."""
        self._work.wait()
        _back(self._pairs)
        self._pairs = []
        return True

    def is_completed(self) -> bool:
        """Whether the operation is complete."""
        return self._work.is_completed() and self.wait()


def _back(pairs) -> None:
    with torch.no_grad():
        for far, near in pairs:
            far.copy_(near)
