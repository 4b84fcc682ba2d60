"""Random numbers on several ranks: alike where all ranks hold the same tensor, different where each holds its own part.

Ranks that start from one seed draw the same numbers, and go on doing so as long as each draws as much as the others.
Inside a region each must draw its own. Megatron-LM keeps a second generator for that; here the stream within is derived
from the common one by a single draw, so that a checkpointed block, which sets the common stream back and runs again,
meets the same numbers again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cluster import Comm

_SPREAD = 0x9E3779B97F4A7C15  # odd, so that different ranks get different seeds from one draw


@contextmanager
def inside(comm: Comm) -> Iterator[None]:
    """Within: torch's generators draw numbers of this rank's own. Afterwards all ranks draw alike again."""
    seed = (int(torch.randint(2**62, ())) + (comm.rank + 1) * _SPREAD) % 2**63
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield


class OwnDropout(nn.Module):
    """Dropout of what is this rank's own: its tokens, or its heads."""

    def __init__(self, comm: Comm, probability: float) -> None:
        super().__init__()
        self.comm, self.probability = comm, probability

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.probability):
            return x
        with inside(self.comm):
            return F.dropout(x, self.probability)
