"""Judge of chapter 12's layer: values, gradients and calls on one rank."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault
from course_lib.judging.tensors import close, factor, kind_fault

WIDTH = 4
REL = 2e-5  # of the largest number: sums of a few products in fp32


def draw(coin: torch.Generator, ids: Tensor, experts: int, width: int = WIDTH) -> tuple[Any, ...]:
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


def layer(scales: str, given: Sequence[Any], leave: str = "") -> tuple[Tensor, list[Tensor]]:
    """Output and gradients token by token in float64: of rows, weights, and each expert's matrix and bias."""
    rows, ids, weights, tables, slope = given
    x, w = rows.double().requires_grad_(), weights.double().requires_grad_()
    wide = [tuple(one.double().requires_grad_() for one in table) for table in tables]
    output = []
    for token in range(len(x)):
        row = torch.zeros(x.shape[1], dtype=torch.float64)
        for place, expert in enumerate(ids[token].tolist()):
            matrix, bias = wide[expert]
            scale = torch.ones((), dtype=torch.float64) if leave == "unweighted" else w[token, place]
            value = (
                (x[token] @ matrix + bias).tanh() * scale
                if scales == "output"
                else (x[token] * scale @ matrix + bias).tanh()
            )
            row = value if leave == "last" else row + value
        output.append(row)
    out = torch.stack(output) if output else x.new_zeros(x.shape)
    leaves = [x, w, *(one for pair in wide for one in pair)]
    if out.requires_grad:
        (out * slope.double()).sum().backward()
    return out.detach(), [torch.zeros_like(one) if one.grad is None else one.grad for one in leaves]


NAMES = ("x", "weights")


def gradients_fault(got: Any, want: Sequence[Tensor]) -> Fault | None:
    """What is wrong with the gradients of rows, weights and experts."""
    if len(got) != len(want):
        return "wrong-shape", f"there are {len(got)} gradients in place of {len(want)}."
    for at, (one, two) in enumerate(zip(got, want, strict=True)):
        top = max(two.abs().max().item() if two.numel() else 0.0, 0.1)
        name = f"`{NAMES[at]}`" if at < 2 else f"expert {(at - 2) // 2}"
        if two.numel() and one.shape == (0,):
            return "no-gradient", f"no gradient reaches {name}."
        if fault := kind_fault(f"The gradient of {name}", one, two.float()):
            return fault
        if close(one.double(), two, REL, top):
            continue
        if at >= 2 and not one.any():
            return "no-gradient", f"no gradient reaches {name}."
        by = factor(one, two)
        told = f"{by:.3g} times the right one" if by is not None else "wrong"
        return "other-gradient", f"the gradient of {name} is {told}."
    return None


def output_fault(scales: str, given: Sequence[Any], got: Any, want: Tensor) -> Fault | None:
    """What is wrong with the output of a layer."""
    if fault := kind_fault("The result", got, want.float()):
        return fault
    if close(got.double(), want, REL):
        return None
    for name, value, message in (
        ("unweighted", layer(scales, given, "unweighted")[0], "the weights are missing."),
        (
            "last-expert",
            layer(scales, given, "last")[0],
            "only one of a token's experts counts: the results of several copies overwrite each other.",
        ),
        (
            "public-form" if scales == "input" else "scaled-input",
            layer("output" if scales == "input" else "input", given)[0],
            "this solves the public form of the exercise, which scales the output."
            if scales == "input"
            else "the weight scales the expert's input; an expert is not linear.",
        ),
    ):
        if close(got.double(), value, REL):
            return name, message
    rows = [at for at in range(len(want)) if not close(got[at].double(), want[at], 1e-4)]
    return "other-numbers", f"{len(rows)} of {len(want)} rows are wrong; the first is row {rows[0] if rows else 0}."


def calls_fault(scales: str, given: Sequence[Any], calls: Any, ordered: bool = True) -> Fault | None:
    """An expert that is called too often, without need or with other rows. Rows in any order where they are not `ordered`."""
    rows, ids, weights, _, _ = given
    for expert, made in enumerate(calls):
        copies = (ids == expert).nonzero()
        want = rows[copies[:, 0]] * (weights[copies[:, 0], copies[:, 1], None] if scales == "input" else 1)
        if len(made) > 1:
            return "called-often", f"expert {expert} is called {len(made)} times; call it once, with all its rows."
        if not made:
            continue  # then the output is wrong unless it has no rows
        if not len(want) and ordered:
            return "idle-call", f"expert {expert} is called without a token."
        if made[0].shape != want.shape:
            return "other-rows", f"expert {expert} gets {describe_rows(made[0])}; {len(want)} rows are its own."
        got = made[0]
        if not ordered and len(want):
            got, want = _sorted(got), _sorted(want)
        if not close(got, want, 1e-6):
            return (
                "other-rows",
                f"expert {expert} gets the right number of rows, but not its tokens{' in order' * ordered}.",
            )
    return None


def describe_rows(rows: Tensor) -> str:
    """Rows in words."""
    return f"{len(rows)} rows" if rows.dim() == 2 else f"a tensor in shape {tuple(rows.shape)}"


def _sorted(rows: Tensor) -> Tensor:
    return rows[rows[:, 0].argsort(stable=True)]
