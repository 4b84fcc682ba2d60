"""How chapter 05 calls answers: rounding on a tensor that must stay as it was, training steps, scalers and streams of chunks."""

from __future__ import annotations

from typing import Any

CHANGED = "the argument was changed"


def rounded(answer: Any, case: Any, comm: Any = None) -> Any:
    """What the answer returns for the case's tensor and further arguments, or CHANGED where it wrote to the tensor."""
    import torch

    x, *others = case.args
    before = x.clone()
    result = answer(x, *others)
    return CHANGED if not torch.equal(x.nan_to_num(7.5), before.nan_to_num(7.5)) else result
