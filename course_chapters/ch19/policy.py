"""GRPO from scratch: advantages of groups, clipped ratios, a reference model's KL, and weights for answers that another
engine wrote.

Log probabilities are (B, T): a row is an answer, a column one of its tokens. `mask` (B, T) is True where a token
counts. Shao and others (2024) describe GRPO, Schulman and others (2017) the clip, Schulman (2020) the three estimators,
and Yao and others (2025) truncated weights between trainer and generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from course_lib.estimate.units import require_whole

CLIP, CAP = 0.2, 2.0  # of the ratio of two steps; of the weight between two engines


def advantages(rewards: Tensor, group: int) -> Tensor:
    """Each answer's reward minus the mean of its group, over the group's standard deviation.

    The standard deviation divides by n − 1, as `torch.std` does, which TRL and verl call.

    `rewards` (answers,) holds the groups one after another, `group` answers to each question; the result has the same
    shape. A group of equal rewards gets zeros. Raises ValueError for groups of one, which are their own mean, for no
    rewards, for a number of rewards that is no multiple of `group`, and for rewards that are not finite.
    """
    if require_whole("group", group, "answers") < 2:
        raise ValueError("A group of one answer is its own mean, so its advantage is zero; give at least two answers.")
    if not rewards.numel() or rewards.numel() % group:
        raise ValueError(f"{rewards.numel()} rewards do not form groups of {group} answers.")
    if not rewards.isfinite().all():
        raise ValueError("A reward is NaN or infinite; score every answer, or leave the question out.")
    grouped = rewards.reshape(-1, group)
    scaled = (grouped - grouped.mean(1, keepdim=True)) / grouped.std(1, keepdim=True)
    equal = grouped.amax(1, keepdim=True) == grouped.amin(1, keepdim=True)  # the mean of equal numbers is rounded
    return torch.where(equal, 0.0, scaled).reshape(rewards.shape)


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """The log probability (B, T) of each token under logits (B, T, V), computed in fp32 at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return wide.log_softmax(-1).gather(-1, tokens[..., None]).squeeze(-1)


def ratios(new: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """exp(new − old), and 1 where the mask is False. Raises ValueError where a ratio that counts is NaN."""
    found = torch.where(mask, new - old, 0.0).exp()
    if found.isnan().any():
        row, column = found.isnan().nonzero()[0].tolist()
        raise ValueError(
            f"The ratio of answer {row}, token {column} is NaN: a log probability is NaN, or both are infinite. "
            "Look at the logits of that token before you leave it out."
        )
    return found


def clipped_losses(new: Tensor, old: Tensor, advantage: Tensor, mask: Tensor, clip: float = CLIP) -> Tensor:
    """PPO's loss of each token, −min(r·A, clip(r)·A), and 0 where the mask is False. `advantage` is (B,)."""
    ratio = ratios(new, old, mask)
    worth = advantage[:, None]
    return -torch.minimum(ratio * worth, ratio.clamp(1 - clip, 1 + clip) * worth) * mask


def k1(new: Tensor, reference: Tensor) -> Tensor:
    """The log ratio: unbiased for KL(new ‖ reference) of tokens that the new policy drew, and often negative."""
    return new - reference


def k2(new: Tensor, reference: Tensor) -> Tensor:
    """Half the squared log ratio: never negative, biased, and its gradient is that of the KL."""
    return (new - reference).square() / 2


def k3(new: Tensor, reference: Tensor) -> Tensor:
    """exp(−d) − 1 + d of the log ratio d: unbiased as k1 and never negative."""
    gap = reference - new
    return gap.expm1() - gap


ESTIMATORS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def truncated_weights(trainer: Tensor, generator: Tensor, mask: Tensor, cap: float = CAP) -> Tensor:
    """min(exp(trainer − generator), cap), without a gradient: how much a token counts that the generator drew.

    Both are log probabilities of the same weights, from two engines. Raises ValueError as `ratios` does.
    """
    return ratios(trainer.detach(), generator, mask).clamp(max=cap)
