"""Experts on one process: a loop that anyone can check, and the same in one pass over copies sorted by expert."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.parallel.expert.routing import Routing


class Experts(nn.Module):
    """Gated MLPs of one shape, their weights stacked: gate and up (experts, ffn, hidden), down (experts, hidden,
    ffn)."""

    def __init__(self, experts: int, hidden: int, ffn: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.empty(experts, ffn, hidden))
        self.up = nn.Parameter(torch.empty(experts, ffn, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, ffn))

    def one(self, expert: int, rows: Tensor) -> Tensor:
        """One expert's output for its rows (any number, hidden)."""
        inner = F.silu(rows @ self.gate[expert].T) * (rows @ self.up[expert].T)
        return inner @ self.down[expert].T

    def forward(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """Rows sorted by expert, `counts[e]` of them for expert e, in the same order out.

        An expert without rows still takes part, so that its gradient is zero and not missing.
        """
        return torch.cat([self.one(expert, part) for expert, part in enumerate(rows.split(list(counts)))])


def dense_mixture(x: Tensor, routing: Routing, experts: Experts, kept: Tensor | None = None) -> Tensor:
    """The reference: every expert computes *every* token of `x` (T, hidden), and the weights of those not chosen are
    zero."""
    weights = routing.weights if kept is None else routing.weights * kept
    out = torch.zeros_like(x)
    for expert in range(len(experts.gate)):
        weight = (weights * (routing.experts == expert)).sum(-1)
        out = out + weight[:, None].to(x.dtype) * experts.one(expert, x)
    return out


def grouped_mixture(x: Tensor, routing: Routing, experts: Experts, kept: Tensor | None = None) -> Tensor:
    """The same output from the chosen copies alone: sort by expert, compute each group, weight, add up by token."""
    order, counts = sort_copies(routing, kept)
    token = order // routing.experts.shape[1]
    rows = experts(x[token], counts.tolist())
    rows = rows * routing.weights.flatten()[order, None].to(x.dtype)
    return torch.zeros_like(x).index_add(0, token, rows)


def sort_copies(routing: Routing, kept: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Numbers of the kept copies (copy j of token t is t·k + j), sorted by expert, and how many each expert has."""
    copies = torch.arange(routing.experts.numel(), device=routing.experts.device)
    if kept is not None:
        copies = copies[kept.flatten()]
    expert = routing.experts.flatten()[copies]
    counts = torch.bincount(expert, minlength=routing.scores.shape[-1])
    return copies[expert.sort(stable=True).indices], counts
