from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import Tensor

from course_grader.judging import Fault
from course_grader.judging.tensors import close, kind_fault, tensor_fault

WIDTH = 4
Given = tuple[Tensor, Tensor, Tensor, list[tuple[Tensor, Tensor]], Tensor]  # what `draw` gives
Calls = Sequence[Sequence[Tensor]]  # the rows of each call, by expert
REL = 2e-5  # of the largest number: sums of a few products in fp32


def draw(coin: torch.Generator, ids: Tensor, experts: int, width: int = WIDTH) -> Given:
    """(rows, ids, weights, experts, slope) of a layer with this routing."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=coin)

    tokens, k = ids.shape
    tables = [(normal(width, width) * 0.4, normal(width) * 0.5) for _ in range(experts)]
    return normal(tokens, width), ids, torch.rand(tokens, k, generator=coin) + 0.2, tables, normal(tokens, width)


def choose(coin: torch.Generator, tokens: int, k: int, experts: Sequence[int]) -> Tensor:
    """Ids of `k` different experts out of some, for every token."""
    order = torch.rand(tokens, len(experts), generator=coin).argsort(-1)[:, :k]
    return torch.tensor(list(experts))[order]


NAMES = ("x", "weights")


class Layer(TypedDict):
    """What a layer's probe brings back."""

    output: Tensor
    gradients: Sequence[Tensor]
    calls: Calls


def layer_faults(got: Layer, want: Layer, ordered: bool = True) -> dict[str, Fault | None]:
    """What is wrong with a layer's output, gradients and calls; the later ones are judged where the output is right."""
    if fault := output_fault(got["output"], want["output"]):
        return {"output": fault}
    graph = gradients_fault(got["gradients"], want["gradients"])
    return {"output": None, "gradients": graph, "calls": calls_fault(got["calls"], want["calls"], ordered)}


def output_fault(got: Tensor, want: Tensor) -> Fault | None:
    if fault := kind_fault("The result", got, want):
        return fault
    if close(got, want, REL):
        return None
    rows = [at for at in range(len(want)) if not close(got[at], want[at], 1e-4)]
    return "other-numbers", f"{len(rows)} of {len(want)} rows are wrong; the first is row {rows[0] if rows else 0}."


def gradients_fault(got: Sequence[Tensor], want: Sequence[Tensor]) -> Fault | None:
    if len(got) != len(want):
        return "wrong-shape", f"there are {len(got)} gradients in place of {len(want)}."
    for at, (one, two) in enumerate(zip(got, want, strict=True)):
        name = f"`{NAMES[at]}`" if at < 2 else f"expert {(at - 2) // 2}"
        if two.any() and not one.any():
            return "no-gradient", f"no gradient reaches {name}."
        if fault := tensor_fault(f"the gradient of {name}", one, two, REL, 0.1):
            return fault
    return None


def calls_fault(got: Calls, want: Calls, ordered: bool = True) -> Fault | None:
    """An expert that is called too often, without need or with other rows. Rows in any order where they are not
    `ordered`."""
    if len(got) != len(want):
        return "wrong-shape", f"there are calls of {len(got)} experts in place of {len(want)}."
    for expert, (made, right) in enumerate(zip(got, want, strict=True)):
        if len(made) > 1:
            return "called-often", f"expert {expert} is called {len(made)} times; call it once, with all its rows."
        if not made:
            continue  # then the output is wrong unless it has no rows
        if not right:
            if ordered or len(made[0]):
                return "idle-call", f"expert {expert} is called without a token."
            continue
        rows, own = made[0], right[0]
        if rows.shape != own.shape:
            return "other-rows", f"expert {expert} gets {describe_rows(rows)}; {len(own)} rows are its own."
        if not ordered:
            rows, own = _sorted(rows), _sorted(own)
        if not close(rows, own, 1e-6):
            told = f"gets the right number of rows, but not its tokens{' in order' * ordered}."
            return "other-rows", f"expert {expert} {told}"
    return None


def describe_rows(rows: Tensor) -> str:
    return f"{len(rows)} rows" if rows.dim() == 2 else f"a tensor in shape {tuple(rows.shape)}"


def _sorted(rows: Tensor) -> Tensor:
    return rows[rows[:, 0].argsort(stable=True)]
