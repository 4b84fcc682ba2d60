"""Random numbers on several ranks: the same where all ranks hold the same tensor, different where each holds its own
part.

Ranks that start from one seed draw the same numbers as long as all of them draw equally many. Inside a region each must
draw its own. Megatron-LM keeps a second generator for that. Here a single draw from the common stream seeds the inner
one, so a checkpointed block, which resets the common stream and runs again, gets the same numbers again.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cluster import Comm

_SPREAD = 0x9E3779B97F4A7C15  # odd, so that different ranks get different seeds from one draw


@contextmanager
def inside(comm: Comm) -> Iterator[None]:
    """Inside, torch's generators draw this rank's own numbers. Afterwards, all ranks draw the same again."""
    seed = (int(torch.randint(2**62, ())) + (comm.rank + 1) * _SPREAD) % 2**63
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield


class OwnDropout(nn.Module):
    """Dropout of this rank's own part: its tokens, or its heads."""

    def __init__(self, comm: Comm, probability: float) -> None:
        super().__init__()
        self.comm, self.probability = comm, probability

    def forward(self, x: Tensor) -> Tensor:
        if not (self.training and self.probability):
            return x
        with inside(self.comm):
            return F.dropout(x, self.probability)
