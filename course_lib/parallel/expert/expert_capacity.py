"""Capacity: each expert processes a fixed number of copies, and the rest are dropped, so that buffers have a fixed
size.

A dropped copy adds nothing to its token's output. The residual connection still carries the token past the layer.
"""

import torch
from torch import Tensor

from course_lib.parallel.expert.routing import Routing

ORDERS = ("position", "weight")


def keep(routing: Routing, capacity: int, by: str = "position") -> Tensor:
    """Which copies (T, k) the experts process, at most `capacity` each: the first tokens, or those of the largest
    weight.

    "position" fills experts in the order of tokens, so late tokens lose; "weight" prefers tokens that need the expert
    most. Ties in weight go to the earlier token.
    """
    if by not in ORDERS:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(map(repr, ORDERS))}.")
    if capacity < 0:
        raise ValueError(f"capacity is {capacity} copies per expert; it must be 0 or more.")
    expert = routing.experts.flatten()
    order = torch.arange(len(expert), device=expert.device)
    if by == "weight":
        order = routing.weights.detach().flatten().sort(descending=True, stable=True).indices
    order = order[expert[order].sort(stable=True).indices]  # grouped by expert, in order within each group
    counts = torch.bincount(expert, minlength=1)
    first = counts.cumsum(0) - counts
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - first[expert[order]]
    return (place < capacity).view_as(routing.experts)
