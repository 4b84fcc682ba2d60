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


def scaled(answer: Any, case: Any, comm: Any = None) -> Any:
    """The scale before each step of a run and after the last, or what `unscale` returns; `case.args = (what, start, interval, given)`."""
    what, start, interval, given = case.args
    scaler = answer(start, interval)
    if what == "run":
        scales = [scaler.scale]
        for overflow in given:
            scaler.update(overflow)
            scales.append(scaler.scale)
        return scales
    before = [gradient.clone() for gradient in given]
    result = scaler.unscale(list(given))
    return result if _same(given, before) else CHANGED


def _same(tensors: Any, before: Any) -> bool:
    """Whether the tensors are as they were, NaN included."""
    import torch

    return all(
        one.dtype == two.dtype and torch.equal(one.nan_to_num(7.5), two.nan_to_num(7.5))
        for one, two in zip(tensors, before, strict=True)
    )


def agreed(answer: Any, case: Any, comm: Any = None) -> Any:
    """A rank's new weights and whether it took the step."""
    result = answer(comm, *case.args)
    if type(result) not in (tuple, list) or len(result) != 2:
        return result
    return {"weights": result[0], "stepped": result[1]}


def averaged(answer: Any, case: Any, comm: Any = None) -> Any:
    """The mean that comes back, the calls of the sum and the dtypes that it was given, and whether a gradient was changed."""
    import torch

    (gradients,) = case.args
    before, calls = [gradient.clone() for gradient in gradients], []

    def tree_sum(tensors: Any) -> Any:
        tensors = list(tensors)
        calls.append(sorted({str(tensor.dtype) for tensor in tensors}))
        level = [tensor.to(torch.float16) for tensor in tensors]
        while len(level) > 1:
            pairs = [one + two for one, two in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[2 * len(pairs) :]
        return level[0]

    mean = answer(list(gradients), tree_sum)
    return {"mean": mean, "calls": calls, "changed": not _same(gradients, before)}
