"""The text as numbered samples: sample i is the same for any number of ranks.

Samples and numbering are those of the course's own trainings, so that losses can be compared.
"""

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_STRIDE, _SHIFT = 2_654_435_769, 1_013_904_223  # both odd; the first is 2**32 / golden ratio
EPOCH = 4096  # samples


def text_file() -> Path:
    """The text: beside this package in an exported folder, or the course's own."""
    near = [Path(__file__).with_name("text.txt"), Path(__file__).parents[3] / "course_lib" / "model" / "text.txt"]
    return next(path for path in near if path.is_file())


@cache
def tokens() -> Tensor:
    """The whole text, one token for each character, int64."""
    text = text_file().read_text(encoding="utf-8")
    place = {character: token for token, character in enumerate(sorted(set(text)))}
    return torch.tensor([place[character] for character in text], dtype=torch.int64, device="cpu")


def order(epoch: int) -> list[int]:
    """The ids of an epoch's samples, in order."""
    return list(range(epoch * EPOCH, (epoch + 1) * EPOCH))


def rows(ids: list[int], seq: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens and targets of these samples, both (len(ids), seq); targets are one character further on."""
    room = len(tokens()) - seq
    start = (torch.tensor(ids, dtype=torch.int64, device="cpu") * _STRIDE + (seed + 1) * _SHIFT) % 2**32 * room >> 32
    found = tokens()[start[:, None] + torch.arange(seq + 1, device="cpu")]
    return found[:, :-1].contiguous(), found[:, 1:].contiguous()
