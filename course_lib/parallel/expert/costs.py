"""What a mixture of experts holds, computes and sends, before anything runs. Arithmetic only: no torch.

Symbols: E experts, k of them per token, N ranks in an expert-parallel group, T tokens of one rank. A *copy* is one
token for one of its experts, so a rank has k·T copies. Counts of routing are nested lists or arrays `counts[source
rank][expert]`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from course_lib.estimate.units import require, require_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class MoEShape:
    """The mixture that takes the place of one MLP. `shared` experts process every token; gated experts have three
    matrices."""

    hidden: int  # width of a token
    ffn: int  # inner width of one expert
    experts: int
    top_k: int
    shared: int = 0
    gated: bool = True

    def __post_init__(self) -> None:
        for name in ("hidden", "ffn", "experts", "top_k"):
            require_whole(name, getattr(self, name))
        require_whole("shared", self.shared, least=0)
        check_top_k(self.top_k, self.experts)

    @property
    def expert(self) -> int:
        """Parameters of one expert."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def router(self) -> int:
        """Parameters of the router, one row per expert."""
        return self.experts * self.hidden

    @property
    def total(self) -> int:
        """Parameters that must be stored."""
        return self.router + (self.experts + self.shared) * self.expert

    @property
    def active(self) -> int:
        """Parameters that one token meets: its k experts, the shared ones, and the router."""
        return self.router + (self.top_k + self.shared) * self.expert


def check_top_k(top_k: int, experts: int) -> None:
    """ValueError unless a token can have `top_k` different experts."""
    if not 1 <= top_k <= experts:
        raise ValueError(f"top_k is {top_k} of {experts} experts; a token can go to 1 to {experts} different experts.")


def local_experts(experts: int, ranks: int) -> int:
    """Experts of each rank; ValueError with the numbers of ranks that fit, if they do not divide."""
    if require_whole("experts", experts) % require_whole("ranks", ranks):
        fits = [count for count in range(1, experts + 1) if experts % count == 0]
        raise ValueError(f"{experts} experts do not divide among {ranks} ranks; choose from {fits} ranks.")
    return experts // ranks


# --- capacity --------------------------------------------------------------------------------------


def capacity(tokens: int, experts: int, top_k: int, factor: float) -> int:
    """Copies that one expert accepts: ceil(factor · k·T / E). A factor of 1 is enough only for an exactly even load."""
    require("factor", factor)
    if factor < 1:
        raise ValueError(
            f"The capacity factor is {factor:g}; below 1 the experts cannot take all copies even when the load is "
            "even. Use 1 or more, or None to drop nothing."
        )
    check_top_k(top_k, require_whole("experts", experts))
    return math.ceil(factor * top_k * require_whole("tokens", tokens, least=0) / experts - 1e-9)


def drop_share(tokens: int, experts: int, top_k: int, factor: float) -> float:
    """The expected share of copies above capacity if every token picks its k experts evenly at random.

    An expert's load is then binomial, T draws of probability k/E; exact up to rounding.
    """
    room, p = capacity(tokens, experts, top_k, factor), top_k / experts
    if p == 1:
        return 0.0
    logs = [
        math.lgamma(tokens + 1)
        - math.lgamma(n + 1)
        - math.lgamma(tokens - n + 1)
        + n * math.log(p)
        + (tokens - n) * math.log1p(-p)
        for n in range(room + 1, tokens + 1)
    ]
    over = math.fsum(above * math.exp(log) for above, log in enumerate(logs, 1))
    return over / (tokens * p)


# --- bytes -----------------------------------------------------------------------------------------


def rank_counts(counts: ArrayLike) -> np.ndarray:
    """Copies from each rank to each rank, (source, destination), if rank r holds the r-th block of experts."""
    table = np.asarray(counts, dtype=np.int64)
    ranks = len(table)
    return table.reshape(ranks, ranks, local_experts(table.shape[1], ranks)).sum(-1)


def layer_bytes(counts: ArrayLike, hidden: int, element_bytes: int = 2) -> list[int]:
    """Bytes that each rank sends for one layer and step: dispatch, combine, and both again in the backward pass.

    A dispatch sends rows to the experts and its backward pass returns gradients; a combine is the reverse, so over the
    four exchanges each rank sends twice what leaves it and twice what comes back. The counts themselves, one int64 for
    each expert on another rank, are sent once.
    """
    to_rank = rank_counts(counts)
    ranks, experts = len(to_rank), np.shape(counts)[1]
    away = to_rank - np.diag(np.diag(to_rank))
    announced = 8 * experts * (ranks - 1) // ranks
    return [
        int(2 * (away[rank].sum() + away[:, rank].sum())) * hidden * element_bytes + announced for rank in range(ranks)
    ]


def even_bytes(tokens: int, hidden: int, top_k: int, ranks: int, element_bytes: int = 2) -> float:
    """Bytes that each rank sends in one exchange under even routing: k·T·(1 − 1/N) rows."""
    return top_k * tokens * (1 - 1 / require_whole("ranks", ranks)) * hidden * element_bytes


def tensor_bytes(tokens: int, hidden: int, ranks: int, element_bytes: int = 2) -> float:
    """Bytes that each rank sends to bring tokens to *split* experts, or back: a ring all-gather or reduce-scatter of
    all T·N rows.

    That is T·(N − 1) rows instead of k·T·(N − 1)/N, so splitting the experts sends N/k times as much.
    """
    return tokens * (require_whole("ranks", ranks) - 1) * hidden * element_bytes


def expected_nodes(top_k: int, nodes: int, experts: int) -> float:
    """The mean number of different nodes among a token's k experts, picked evenly at random; experts divide among the
    nodes."""
    per_node = local_experts(experts, nodes)
    check_top_k(top_k, experts)
    none = math.comb(experts - per_node, top_k) / math.comb(experts, top_k)
    return nodes * (1 - none)


# --- load ------------------------------------------------------------------------------------------


def imbalance(loads: ArrayLike) -> float:
    """The largest load over the mean load: 1 is even. Everyone waits for the busiest rank, so the step is this much
    longer."""
    loads = np.asarray(loads, dtype=float)
    return float(loads.max() / loads.mean()) if loads.sum() else 1.0


def placement(loads: Sequence[float], ranks: int) -> list[list[int]]:
    """Experts of each rank, as many on every rank, hottest first onto the least loaded rank that has room."""
    room, total = local_experts(len(loads), ranks), [0.0] * ranks
    placed: list[list[int]] = [[] for _ in range(ranks)]
    for expert in sorted(range(len(loads)), key=lambda e: (-loads[e], e)):
        rank = min((r for r in range(ranks) if len(placed[r]) < room), key=lambda r: (total[r], r))
        placed[rank].append(expert)
        total[rank] += loads[expert]
    return [sorted(one) for one in placed]
