"""Supervised fine-tuning: conversations packed into sequences of one length, and a loss on the tokens to learn alone.

A conversation is a list of turns (who, tokens). Only the assistant's tokens are targets. A packed conversation attends
to itself alone, so packing changes no gradient, and losses are averaged over the targets of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.model.packing import document_ids, document_mask, first_fit_decreasing, next_token_targets
from course_lib.model.transformer import Attention, Transformer

Turn = tuple[str, Sequence[int]]
IGNORED = -100  # a target without a loss


class Pack(NamedTuple):
    """Packed conversations, each (bins, room): tokens, targets (−100 without a loss), and the conversation that each
    position belongs to (−1 is padding)."""

    tokens: Tensor
    targets: Tensor
    ids: Tensor


def pack(conversations: Sequence[Sequence[Turn]], room: int) -> Pack:
    """Conversations in sequences of `room` tokens, longest first; targets are the tokens of the assistant.

    Raises ValueError if there is none, if one is longer than `room`, or if no token at all is to be learned.
    """
    if not conversations:
        raise ValueError("There is no conversation to pack.")
    words = [[token for _, turn in talk for token in turn] for talk in conversations]
    counts = [[who == "assistant" for who, turn in talk for _ in turn] for talk in conversations]
    lengths = [len(each) for each in words]
    bins = first_fit_decreasing(lengths, room)
    ids = document_ids(bins, lengths, room)
    tokens, learns = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for row, flags, held in zip(tokens, learns, bins, strict=True):
        flat = [token for number in held for token in words[number]]
        row[: len(flat)] = torch.tensor(flat, dtype=row.dtype)
        flags[: len(flat)] = torch.tensor([flag for number in held for flag in counts[number]])
    targets = next_token_targets(tokens, ids).masked_fill(~learns.roll(-1, -1), IGNORED)
    if not (targets != IGNORED).any():
        raise ValueError("No token of these conversations is written by the assistant after a first one.")
    return Pack(tokens, targets, ids)


@contextmanager
def attending_within(model: Transformer, ids: Tensor) -> Iterator[None]:
    """A context in which the model's tokens attend only to their own conversation.

    Rotary positions need no change, because attention depends on differences of positions alone.
    """
    seen = document_mask(ids)[:, None]
    layers = [module for module in model.modules() if isinstance(module, Attention)]
    cores = [layer.core for layer in layers]

    def core(q: Tensor, k: Tensor, v: Tensor, kind: str = "", dropout: float = 0.0) -> Tensor:
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=dropout)

    for layer in layers:
        layer.core = core
    try:
        yield
    finally:
        for layer, before in zip(layers, cores, strict=True):
            layer.core = before


def loss_sum(model: Transformer, packed: Pack) -> Tensor:
    """The sum of losses over the targets of packed conversations; divide by the targets of all ranks."""
    with attending_within(model, packed.ids):
        logits = model(packed.tokens)
    return F.cross_entropy(logits.flatten(0, 1), packed.targets.flatten(), reduction="sum")


def targets_in(packed: Pack) -> int:
    """The number of tokens with a loss."""
    return int((packed.targets != IGNORED).sum())
