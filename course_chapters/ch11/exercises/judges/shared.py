"""What several of chapter 11's judges use."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Fault, Wrong
from course_grader.judging.tensors import kind_fault


def once(parts: Sequence[Sequence[int]], length: int) -> Fault | None:
    """A position that is missing, there twice, or outside the sequence."""
    told = [p for own in parts for p in own]
    if missing := sorted(set(range(length)) - set(told)):
        return "missing", f"position {missing[0]} is on no rank."
    if outside := sorted(set(told) - set(range(length))):
        return "outside", f"position {outside[0]} does not exist."
    twice = next((p for p in told if told.count(p) > 1), None)
    return None if twice is None else ("twice", f"position {twice} occurs more than once.")


SHARP = 2e-5  # of a log-sum in fp32, relative to the largest in the case


def log_sum_fault(where: str, got: Tensor, want: Tensor) -> Fault | None:
    """What is wrong with log-sums: −∞ in other places, a dtype other than fp32, or other numbers."""
    if fault := kind_fault(where, got, want.float()):
        return fault
    if got.isnan().any() or (got == math.inf).any():
        return "not-finite", f"{where} holds NaN or +∞."
    if not torch.equal(got == -math.inf, want == -math.inf):
        return "not-minus-infinity", f"{where} must be −∞ exactly where a query sees no key."
    finite = want > -math.inf
    scale = max(1.0, want[finite].abs().max().item() if finite.any() else 1.0)

    if bool(((got - want).abs()[finite] <= SHARP * scale).all()):
        return None
    return Wrong("log-sum", f"{where} is not log Σ exp over all keys.", f"{where}: ")
