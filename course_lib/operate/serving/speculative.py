"""Speculative decoding: a small model drafts γ tokens, the large one checks all of them in one pass, and no
distribution changes.

A drafted token x is accepted with probability min(1, p(x) / q(x)), where p is the large model's distribution and q the
draft's. A rejected one is replaced by a sample of max(0, p − q), normalized, and the rest of the draft is dropped. If
all are accepted, one more token is sampled from p. The result is distributed exactly as p. Leviathan et al. (2023),
Chen et al. (2023).
"""

from collections.abc import Sequence

import numpy as np

from course_lib.estimate.units import require, require_whole


def _distribution(name: str, values: object) -> np.ndarray:
    """Probabilities as an array (…, vocabulary) whose last axis sums to one."""
    array = np.asarray(values, dtype=float)
    if (
        array.ndim == 0
        or not np.all(np.isfinite(array))
        or np.any(array < 0)
        or not np.allclose(array.sum(-1), 1, atol=1e-6)
    ):
        raise ValueError(f"{name} must hold probabilities that are at least 0 and sum to 1 over the vocabulary.")
    return array


def verify(drafted: Sequence[int], draft: object, target: object, rng: np.random.Generator) -> list[int]:
    """The tokens of one speculative step: a prefix of `drafted` and one token more, distributed as the target model's.

    `draft` (γ, V) are the distributions that the drafted tokens were sampled from, `target` (γ + 1, V) those of the
    large model at the same positions and at the next one.
    """
    p = _distribution("target", target)
    q = _distribution("draft", draft) if len(drafted) else np.zeros((0, p.shape[-1]))
    if q.shape != (len(drafted), p.shape[-1]) or len(p) != len(drafted) + 1:
        raise ValueError(
            f"{len(drafted)} drafted tokens need draft ({len(drafted)}, V) and target ({len(drafted) + 1}, V); got "
            f"{q.shape}, {p.shape}."
        )
    kept: list[int] = []
    for place, token in enumerate(drafted):
        if q[place, token] == 0:
            raise ValueError(
                f"Token {token} at place {place} has probability 0 in the draft; it cannot have been sampled from it."
            )
        if rng.random() * q[place, token] < p[place, token]:
            kept.append(int(token))
            continue
        rest = np.maximum(p[place] - q[place], 0.0)
        return [*kept, int(rng.choice(len(rest), p=rest / rest.sum()))]
    return [*kept, int(rng.choice(p.shape[-1], p=p[-1] / p[-1].sum()))]


def expected_tokens(rate: float, drafted: int) -> float:
    """Tokens per pass of the large model: (1 − α^(γ+1)) / (1 − α) for an acceptance rate α that is the same
    everywhere."""
    rate = require("rate", rate, "a fraction of one", most=1.0, open_below=False)
    count = require_whole("drafted", drafted, least=0) + 1
    return float(count) if rate == 1 else (1 - rate**count) / (1 - rate)


def speedup(rate: float, drafted: int, draft_cost: float, check_cost: float = 1.0) -> float:
    """Times faster than one token per pass. `draft_cost` is a draft token's time, `check_cost` that of checking, in
    decode passes.

    Checking costs as much as one decode pass only while the pass is bound by memory; with a large batch it costs up to
    γ + 1.
    """
    cost = require("draft_cost", draft_cost, open_below=False) * drafted + require("check_cost", check_cost)
    return expected_tokens(rate, drafted) / cost
