"""The kernel in the process of its ranks: requests carry the tensors themselves."""

from __future__ import annotations

import torch

from course_lib.cluster.kernel import Kernel
from course_lib.cluster.protocol import Fault, Finished, Reply, Request, Stuck


def move(into: torch.Tensor, data: torch.Tensor) -> None:
    """Copy between two ranks' tensors; a communicator passes tensors without autograd."""
    into.copy_(data if data.shape == into.shape else data.reshape(into.shape))


def keep(data: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor in flight."""
    return data.clone()


class InProcess:
    """A host's interface to the kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def step(self, request: Request | None) -> tuple[int, Reply] | Stuck | Fault | Finished:
        """Submit a request; return the rank that runs next."""
        if request is not None:
            self.kernel.submit(request)
        return self.kernel.next()
