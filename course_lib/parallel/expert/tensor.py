"""The alternative: split *each* expert among the ranks instead of the experts, as tensor parallelism splits an MLP.

All ranks then compute equally much whatever the routing. Every rank needs the tokens of all ranks: an all-gather in, a
reduce-scatter out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.cluster import Comm
from course_lib.parallel.expert.experts import Experts, grouped_mixture
from course_lib.parallel.expert.routing import Routing
from course_lib.parallel.tensor import gather_in, scatter_out


def split_experts(whole: Experts, comm: Comm) -> Experts:
    """This rank's part of every expert: a block of its inner width."""
    experts, ffn, hidden = whole.gate.shape
    if ffn % comm.size:
        fits = [count for count in range(1, ffn + 1) if ffn % count == 0]
        raise ValueError(f"An inner width of {ffn} does not divide among {comm.size} ranks; choose from {fits} ranks.")
    part = Experts(experts, hidden, ffn // comm.size)
    inner = slice(comm.rank * ffn // comm.size, (comm.rank + 1) * ffn // comm.size)
    with torch.no_grad():
        part.gate.copy_(whole.gate[:, inner])
        part.up.copy_(whole.up[:, inner])
        part.down.copy_(whole.down[:, :, inner])
    return part


def tensor_mixture(x: Tensor, routing: Routing, part: Experts, comm: Comm) -> Tensor:
    """The mixture's output for this rank's tokens `x` (T, hidden), the same T on every rank, from parts of all experts."""
    experts = torch.empty((comm.size, *routing.experts.shape), dtype=torch.int64, device=x.device)
    comm.all_gather_into_tensor(experts, routing.experts)
    weights, scores = (gather_in(each, comm, 0) for each in (routing.weights, routing.scores.detach()))
    everyone = Routing(experts.flatten(0, 1), weights, scores)
    return scatter_out(grouped_mixture(gather_in(x, comm, 0), everyone, part), comm, 0)
