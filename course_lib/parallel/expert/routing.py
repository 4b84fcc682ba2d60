"""The router: scores of every token for every expert, the k experts that it chooses, and the weights of their outputs.

Three rules are in use. "softmax": probabilities over all experts, whose chosen k are the weights as they are (Switch).
"chosen": a softmax over the k chosen logits alone, so the weights add up to 1 (GShard, Mixtral). "sigmoid": each expert
scored by itself; the weights are the chosen scores divided by their sum, and a bias may change the choice but never the
weights (DeepSeek-V3).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.parallel.expert.costs import check_top_k, local_experts

SCORES = ("softmax", "chosen", "sigmoid")


@dataclass(frozen=True, slots=True)
class Routing:
    """Where T tokens go. Ties go to the expert with the lower number."""

    experts: Tensor  # (T, k), int64: the chosen experts, best first
    weights: Tensor  # (T, k): factors of their outputs, with gradient
    scores: Tensor  # (T, E): what the experts were scored, with gradient; for "chosen" the softmax over all

    @property
    def counts(self) -> Tensor:
        """Copies for each expert, (E,) int64."""
        return torch.bincount(self.experts.flatten(), minlength=self.scores.shape[-1])


def route(
    logits: Tensor,
    top_k: int,
    score: str = "softmax",
    *,
    bias: Tensor | None = None,
    nodes: int = 1,
    node_limit: int | None = None,
) -> Routing:
    """Choose `top_k` experts for each row of `logits` (T, E), in fp32 at least.

    `bias` (E,) is added to the scores for the choice alone. With `node_limit`, a token's experts lie on at most so many
    of the `nodes`, each of which holds a block of experts.
    """
    if logits.ndim != 2:
        raise ValueError(f"Logits of shape {tuple(logits.shape)}: give one row per token and one column per expert.")
    if score not in SCORES:
        raise ValueError(f"score is {score!r}; it must be one of {', '.join(map(repr, SCORES))}.")
    check_top_k(top_k, logits.shape[1])
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    scores = wide.sigmoid() if score == "sigmoid" else wide.softmax(-1)
    order = scores.detach() if bias is None else scores.detach() + bias
    if node_limit is not None:
        order = limit_nodes(order, top_k, nodes, node_limit)
    experts = order.sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    weights = scores.gather(-1, experts)
    if score != "softmax":
        weights = weights / weights.sum(-1, keepdim=True)  # of a softmax, this is the softmax over the chosen logits
    return Routing(experts, weights, scores)


def limit_nodes(scores: Tensor, top_k: int, nodes: int, node_limit: int) -> Tensor:
    """`scores` (T, E) with −∞ for experts outside each token's best `node_limit` nodes.

    A node's worth is the sum of its ceil(k / limit) highest scores (DeepSeek-V3, section 2.1.2). Ties go to the lower
    node.
    """
    per_node = local_experts(scores.shape[1], nodes)
    if not 1 <= node_limit <= nodes:
        raise ValueError(f"node_limit is {node_limit}; with {nodes} nodes it must be from 1 to {nodes}.")
    if node_limit * per_node < top_k:
        raise ValueError(
            f"{node_limit} nodes hold {node_limit * per_node} experts, and each token needs {top_k}; "
            f"allow at least {-(-top_k // per_node)} nodes."
        )
    by_node = scores.unflatten(1, (nodes, per_node))
    worth = by_node.topk(min(per_node, -(-top_k // node_limit)), dim=-1).values.sum(-1)
    best = worth.sort(dim=-1, descending=True, stable=True).indices[:, :node_limit]
    allowed = torch.zeros_like(worth, dtype=torch.bool).scatter_(1, best, True)
    return by_node.masked_fill(~allowed[..., None], -torch.inf).flatten(1)
