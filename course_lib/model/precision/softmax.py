"""Softmax that no score overflows, over a row that arrives in pieces."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(slots=True)
class OnlineSoftmax:
    """The largest score so far and the sum of exp(score - largest): what one pass over a row must remember.

    M. Milakov and N. Gimelshein (2018). Chunks are (..., n) with any n. A masked score is -inf; a score of +inf gives
    NaN, as in torch.
    """

    largest: Tensor = field(default_factory=lambda: torch.tensor(-math.inf))
    total: Tensor = field(default_factory=lambda: torch.tensor(0.0))

    def add(self, scores: Tensor) -> None:
        """Take a chunk of scores in; the old sum is rescaled to the new largest score."""
        if not scores.shape[-1]:
            return
        largest = torch.maximum(self.largest, scores.amax(-1))
        base = torch.where(largest.isinf(), 0.0, largest)  # nothing but masked scores so far
        self.total = self.total * (self.largest - base).exp() + (scores - base[..., None]).exp().sum(-1)
        self.largest = largest

    @property
    def log_total(self) -> Tensor:
        """log(sum(exp(scores))) of all chunks; -inf where every score was masked."""
        return self.largest + self.total.log()
