"""Documents of unequal length in sequences of one length: bins, utilization, and who may attend to whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from course_lib.estimate.units import require_whole

if TYPE_CHECKING:
    from torch import Tensor


def in_order(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Documents in their order, a new sequence where the next one does not fit: each bin lists document numbers."""
    bins: list[list[int]] = []
    left = 0
    for place, length in enumerate(_checked(lengths, room)):
        if length > left:
            bins.append([])
            left = room
        bins[-1].append(place)
        left -= length
    return bins


def first_fit_decreasing(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Longest first, each into the first sequence with room; at most 11/9 of the fewest bins, plus 6/9 (Dósa, 2007)."""
    lengths = _checked(lengths, room)
    bins: list[list[int]] = []
    left: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        at = next((each for each, free in enumerate(left) if free >= lengths[place]), len(bins))
        if at == len(bins):
            bins.append([])
            left.append(room)
        bins[at].append(place)
        left[at] -= lengths[place]
    return bins


def utilization(bins: Sequence[Sequence[int]], lengths: Sequence[int], room: int) -> float:
    """Real tokens over allocated ones; ValueError where a bin overflows. No bins: 1, as nothing is wasted."""
    for place, each in enumerate(bins):
        if (filled := sum(lengths[document] for document in each)) > room:
            raise ValueError(f"Sequence {place} holds {filled} tokens, and its room is {room}.")
    used = sum(lengths[document] for each in bins for document in each)
    return used / (room * len(bins)) if bins else 1.0


def document_ids(bins: Sequence[Sequence[int]], lengths: Sequence[int], room: int) -> Tensor:
    """Which document each position holds, shape (bins, room), int64; −1 is padding."""
    import torch

    ids = torch.full((len(bins), room), -1)
    for row, each in zip(ids, bins, strict=True):
        start = 0
        for document in each:
            row[start : start + lengths[document]] = document
            start += lengths[document]
    return ids


def document_mask(ids: Tensor) -> Tensor:
    """True where a position may attend: itself and earlier ones of its own document. (…, S) gives (…, S, S), bool.

    Padding (−1) attends to itself alone, so that its softmax is defined; its loss must be left out.
    """
    import torch

    place = torch.arange(ids.shape[-1], device=ids.device)
    same = (ids[..., :, None] == ids[..., None, :]) & (place[:, None] >= place)
    padding = (ids < 0)[..., :, None]
    return torch.where(padding, torch.eye(ids.shape[-1], dtype=torch.bool, device=ids.device), same)


def document_positions(ids: Tensor) -> Tensor:
    """Each token's position in its own document, from 0, as rotary tables are read; the shape of `ids`."""
    import torch

    place = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)
    begins = torch.ones_like(ids, dtype=torch.bool)
    begins[..., 1:] = ids[..., 1:] != ids[..., :-1]
    return place - torch.where(begins, place, 0).cummax(-1).values


def next_token_targets(tokens: Tensor, ids: Tensor, ignore: int = -100) -> Tensor:
    """The token after each, `ignore` where the next one belongs to another document or is padding; shapes (…, S)."""
    targets = tokens.roll(-1, -1)
    other = ids.roll(-1, -1) != ids
    other[..., -1] = True  # the last position has no next one
    return targets.masked_fill(other | (ids < 0), ignore)


def _checked(lengths: Sequence[int], room: int) -> list[int]:
    room = require_whole("room", room, "tokens")
    for place, length in enumerate(lengths):
        if require_whole("length", length, "tokens") > room:
            raise ValueError(f"Document {place} has {length} tokens, and a sequence has room for {room}; cut it first.")
    return list(lengths)
