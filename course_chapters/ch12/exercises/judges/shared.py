"""What several of chapter 12's judges use."""

import torch
from torch import Tensor

from course_grader.judging import Fault


def top(logits: Tensor, k: int) -> Tensor:
    return logits.argsort(dim=-1, descending=True, stable=True)[:, :k]


def ids_fault(got: Tensor, want: Tensor, what: str) -> Fault | None:
    """What is wrong with chosen experts; `what` says which are the right ones."""
    if torch.equal(got, want):
        return None
    if torch.equal(got.sort(-1).values, want.sort(-1).values):
        told = "these are the right experts in another order; the largest comes first, of ties the lower id."
        return "other-order", told
    rows = (got != want).any(-1)
    return "other-ids", f"in {int(rows.sum())} of {len(rows)} rows these are not the experts {what}."
