"""One layer's mixture of experts: router, experts on one rank or on several, shared experts, capacity."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from course_lib.cluster import Comm
from course_lib.parallel.expert import costs
from course_lib.parallel.expert.exchange import combine, dispatch
from course_lib.parallel.expert.expert_capacity import keep
from course_lib.parallel.expert.experts import Experts, grouped_mixture
from course_lib.parallel.expert.routing import SCORES, Routing, route

BALANCE = ("none", "loss", "bias")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The settings of a mixture of experts."""

    experts: int = 8
    top_k: int = 2
    ffn: int = 32  # inner width of one expert
    shared: int = 0  # experts that every token passes through
    score: str = "chosen"
    capacity_factor: float | None = None  # None: nothing is dropped
    keep_by: str = "position"
    balance: str = "none"
    balance_weight: float = 0.01  # of the balance loss
    bias_rate: float = 0.01  # by which a step moves each expert's bias
    z_weight: float = 0.0

    def __post_init__(self) -> None:
        costs.MoEShape(hidden=1, ffn=self.ffn, experts=self.experts, top_k=self.top_k, shared=self.shared)
        if self.score not in SCORES:
            raise ValueError(f"score is {self.score!r}; it must be one of {', '.join(map(repr, SCORES))}.")
        if self.balance not in BALANCE:
            raise ValueError(f"balance is {self.balance!r}; it must be one of {', '.join(map(repr, BALANCE))}.")
        if self.capacity_factor is not None:
            costs.capacity(1, self.experts, self.top_k, self.capacity_factor)


class MixtureLayer(nn.Module):
    """What takes the place of an MLP. With `comm`, this rank holds E/N experts; router and shared experts are on every
    rank.

    After a forward pass, `routing`, `logits` and `kept` are those of this rank's tokens.
    """

    bias: Tensor

    def __init__(self, hidden: int, mixture: Mixture, comm: Comm | None = None) -> None:
        super().__init__()
        self.mixture, self.comm = mixture, comm
        self.router = nn.Linear(hidden, mixture.experts, bias=False)
        self.experts = Experts(costs.local_experts(mixture.experts, comm.size if comm else 1), hidden, mixture.ffn)
        self.shared = Experts(1, hidden, mixture.shared * mixture.ffn) if mixture.shared else None
        self.register_buffer("bias", torch.zeros(mixture.experts))
        self.routing: Routing | None = None
        self.logits: Tensor | None = None
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        rows, mixture = x.reshape(-1, x.shape[-1]), self.mixture
        self.logits = self.router(rows)
        bias = self.bias if mixture.balance == "bias" else None
        self.routing = routing = route(self.logits, mixture.top_k, mixture.score, bias=bias)
        self.kept = None
        if mixture.capacity_factor is not None:
            room = costs.capacity(len(rows), mixture.experts, mixture.top_k, mixture.capacity_factor)
            self.kept = keep(routing, room, mixture.keep_by)
        if self.comm is None:
            out = grouped_mixture(rows, routing, self.experts, self.kept)
        else:
            sent = dispatch(rows, routing, self.comm, self.kept)
            out = combine(self.experts(sent.rows, sent.counts), sent, routing, self.comm)
        if self.shared is not None:
            out = out + self.shared.one(0, rows)
        return out.view(x.shape)
