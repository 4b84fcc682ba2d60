"""The judge of chapter 09's row-parallel layer, whose bias counts once."""

import random
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges.regions import (
    FORM,
    after,
    as_part,
    case_of,
    gradient_faults,
    over_ranks,
    part,
    results,
    ring_most,
    touched,
    traffic,
    whole_gradients,
)
from course_lib.judging import Fault, Judging, Mistake, Params, judged, verdict
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _row_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def make(
        name: str, n: int, rows: tuple[int, ...], width: int, out: int, dtype: torch.dtype = torch.float32, **more: Any
    ) -> Case:
        x, weight, bias = (
            normal(coin, *rows, width, dtype=dtype),
            normal(coin, out, width, dtype=dtype),
            normal(coin, out, dtype=dtype),
        )
        gradient = normal(coin, *rows, out, dtype=dtype)
        per_rank = tuple(
            (gradient.clone(), part(x, n, rank, -1), part(weight, n, rank, 1), bias.clone()) for rank in range(n)
        )
        return case_of(name, n, per_rank, secret={"x": x, "weight": weight, "bias": bias, "gradient": gradient}, **more)

    n = params["ranks"]
    return [
        make(f"{n} ranks", n, (6,), 4 * n, 8, part="output"),
        make("two ranks, other data", 2, (3, 4), 6, 4, part="output", visible=False),
        make("one rank", 1, (5,), 4, 3, kind="generality", part="shapes", visible=False),
        make(
            "five ranks, 64 bits", 5, (2, 2, 2), 10, 6, torch.float64, kind="generality", part="shapes", visible=False
        ),
    ]


def _row_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n = case.ranks or 1
    if fault := results(outcome.value, n, FORM):
        return [verdict(case.kind, case.part, case, fault)]
    whole = {name: w for name, w in case.secret.items() if name != "gradient"}
    y, grads = whole_gradients(lambda w: F.linear(w["x"], w["weight"], w["bias"]), whole, case.secret["gradient"])
    bias = whole["bias"]

    def values(rank: int, got: Mapping[str, Any]) -> Fault | None:
        own = F.linear(part(whole["x"], n, rank, -1), part(whole["weight"], n, rank, 1))
        slips = (
            Mistake("bias-n-times", y + (n - 1) * bias, f"the bias is in it {n} times, once from every rank."),
            Mistake("no-bias", y - bias, "the bias is missing."),
            Mistake("bias-shrunk", y - bias + bias / n, f"the bias is in it once, divided by {n}."),
            Mistake("own-part", own + bias, "this is what this rank's columns yield; all ranks' parts add up."),
            Mistake("mean", (y - bias) / n + bias, "this is a mean of the ranks' parts; they add up."),
        )
        return tensor_fault(f"Rank {rank}: y", got["y"], y, slips)

    def gradients(rank: int, got: Mapping[str, Any]) -> Fault | None:
        want = {"bias": grads["bias"], "x": part(grads["x"], n, rank, -1), "weight": part(grads["weight"], n, rank, 1)}
        if type(got["grads"]) is dict and got["grads"].get("bias") is None and n > 1:
            return (
                "bias-on-one-rank",
                f"Rank {rank}'s copy of the bias gets no gradient: it will stay behind when another rank's copy is stepped.",
            )
        zero = torch.zeros_like(want["bias"])
        if (
            isinstance(got["grads"], dict)
            and isinstance(got["grads"].get("bias"), Tensor)
            and n > 1
            and torch.equal(got["grads"]["bias"], zero)
        ):
            return (
                "bias-on-one-rank",
                f"Rank {rank}'s copy of the bias gets a gradient of zeros: it will stay behind when another rank's copy is stepped.",
            )
        slips: dict[str, tuple[Mistake, ...]] = {
            name: (
                Mistake(
                    "times-n",
                    n * w,
                    f"it is {n} times too large. The bias's gradient is the same on all ranks already.",
                ),
                Mistake(
                    "divided",
                    w / n,
                    f"it is {n} times too small: y is right, for the bias's shares add up, but each rank steps its own copy by its own "
                    "gradient.",
                ),
            )
            for name, w in want.items()
        }
        return gradient_faults(got, rank, ("bias", "x", "weight"), want, slips)

    output = over_ranks(outcome.value, values) or touched(outcome.value)
    found = None if output else over_ranks(outcome.value, gradients)
    if case.kind != "values":
        return [verdict(case.kind, case.part, case, output or found)]
    one = ring_most(y.numel(), y.element_size(), n)
    known = (
        Mistake(
            "extra-reduce",
            ring_most(bias.numel(), bias.element_size(), n),
            "The bias, or its gradient, goes through an all-reduce of its own: it is there, whole, on every rank.",
        ),
        Mistake(
            "extra-reduce",
            one,
            "That is a second all-reduce of the output: its gradient is the same on all ranks already.",
        ),
        Mistake(
            "gathered",
            ((n - 1) * y.numel() * y.element_size()) - one,
            "Every rank's part goes to every rank: an all-reduce sends less than two of them.",
        ),
    )
    spent = traffic(
        outcome.meter,
        2 * (n - 1) * y.numel() * y.element_size(),
        one,
        known,
        "One all-reduce of the output, in the forward pass.",
    )
    if output:
        return [verdict("values", "output", case, output), verdict("values", "gradients", case, after(output))]
    return [
        verdict("values", "output", case, None),
        *judged(as_part(case, "gradients"), found, ("cost", "bytes", spent)),
    ]


ROWS = {
    "row-bias": Judging(
        shares={"values:output": 0.35, "values:gradients": 0.35, "cost:bytes": 0.2, "generality:shapes": 0.1},
        cases=_row_cases,
        verdicts=_row_verdicts,
        why="What is added before the sum counts once per rank. Divided by N it is right in the output, and each copy's gradient is N times too small; on "
        "one rank alone it is right in the output, and the other copies stay behind. Behind the sum all ranks do the same, forward and backward.",
        pytorch="`RowParallelLinear` in Megatron adds its bias behind the all-reduce, or leaves it to be added with the dropout.",
    )
}
