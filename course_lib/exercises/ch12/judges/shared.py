"""What several of chapter 12's judges use."""

from torch import Tensor


def top(logits: Tensor, k: int) -> Tensor:
    """The ids of the k largest logits, ties to the lower id."""
    return logits.argsort(dim=-1, descending=True, stable=True)[:, :k]
