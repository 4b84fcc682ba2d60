"""The judge of chapter 09's MLP: right in both passes, with one all-reduce each way."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges.regions import (
    FORM,
    Weights,
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


def _mlp(kind: str) -> Callable[[Weights], Tensor]:
    def call(w: Weights) -> Tensor:
        if kind == "gated":
            return F.linear(F.silu(F.linear(w["x"], w["gate"])) * F.linear(w["x"], w["up"]), w["down"])
        return F.linear(F.gelu(F.linear(w["x"], w["up"], w["up_bias"])), w["down"], w["down_bias"])

    return call


def _mlp_whole(coin: torch.Generator, kind: str, hidden: int, ffn: int, dtype: torch.dtype) -> dict[str, Tensor]:
    shapes = {"up": (ffn, hidden), "down": (hidden, ffn)}
    shapes |= {"gate": (ffn, hidden)} if kind == "gated" else {"up_bias": (ffn,), "down_bias": (hidden,)}
    return {name: normal(coin, *shape, dtype=dtype) for name, shape in shapes.items()}


def _mlp_piece(whole: Weights, n: int, rank: int) -> dict[str, Tensor]:
    return {
        name: w.clone() if name == "down_bias" else part(w, n, rank, 1 if name == "down" else 0)
        for name, w in whole.items()
    }


def _mlp_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, kind, tokens = coin_of(rng), params["kind"], params["tokens"]

    def make(
        name: str,
        n: int,
        shape: tuple[int, ...],
        hidden: int,
        ffn: int,
        dtype: torch.dtype = torch.float32,
        **more: Any,
    ) -> Case:
        whole = _mlp_whole(coin, kind, hidden, ffn, dtype)
        x, gradient = normal(coin, *shape, hidden, dtype=dtype), normal(coin, *shape, hidden, dtype=dtype)
        secret = {**whole, "x": x, "gradient": gradient}
        per_rank = tuple((x.clone(), gradient.clone(), _mlp_piece(whole, n, rank)) for rank in range(n))
        return case_of(name, n, per_rank, secret=secret, **more)

    rows = tokens // 2
    return [
        make("three ranks", 3, (2, rows), 8, 4 * tokens, part="output"),
        make("two ranks, other data", 2, (2, rows), 8, 4 * tokens, part="output", visible=False),
        make("one rank", 1, (1, 5), 6, 8, kind="generality", part="shapes", visible=False),
        make("three ranks, ffn smaller than hidden", 3, (2, 4), 9, 6, kind="generality", part="shapes", visible=False),
        make("five ranks, 64 bits", 5, (1, 3), 4, 30, torch.float64, kind="generality", part="shapes", visible=False),
    ]


def _mlp_known(case: Case, n: int) -> Any:
    x, ffn = case.secret["x"], case.secret["up"].shape[0]
    tokens, item = x.numel() // x.shape[-1], x.element_size()
    inner = (n - 1) * tokens * ffn / n * item
    weights = (
        (n - 1)
        / n
        * item
        * sum(w.numel() for name, w in case.secret.items() if name not in ("x", "gradient", "down_bias"))
    )
    one = ring_most(x.numel(), item, n)
    two = ring_most(2 * x.numel(), item, n) - one
    between = (
        "What lies between the two products is each rank's own, and just what its piece of `down` needs: nothing has to be gathered "
        "there."
    )
    return (
        Mistake("gathered-in-the-middle", inner, between),
        Mistake("gathered-in-the-middle", 2 * inner, between),
        Mistake("gathered-in-the-middle", inner + weights, between),
        Mistake(
            "weights-travelled",
            weights - 2 * one,
            "Whole weights on every rank: pieces are there so that nobody needs the whole.",
        ),
        Mistake(
            "gathered",
            (n - 1) * x.numel() * item - one,
            "Every rank's part goes to every rank: an all-reduce sends less than two of them.",
        ),
        Mistake(
            "one-too-many",
            one,
            "That is one all-reduce more than one each way: one operator in front and one behind are enough.",
        ),
        Mistake(
            "one-too-many",
            2 * one,
            "That is two all-reduces more than one each way: one operator in front and one behind are enough.",
        ),
        Mistake(
            "one-too-many",
            two,
            "That is one all-reduce more than one each way: one operator in front and one behind are enough.",
        ),
    )


def _mlp_output(
    case: Case, params: Params, rank: int, got: Mapping[str, Any], want: Tensor, partial: Sequence[Tensor]
) -> Fault | None:
    n, bias = len(partial), case.secret.get("down_bias")
    c = torch.zeros(()) if bias is None else bias
    slips: list[Mistake] = [
        Mistake(
            "own-part",
            (partial[rank] + c).to(want.dtype),
            "this is what this rank's piece of `down` yields; all ranks' parts add up.",
        ),
        Mistake("mean", (sum(partial) / n + c).to(want.dtype), "this is a mean of the ranks' parts; they add up."),
    ]
    if bias is not None:
        slips += [
            Mistake("bias-n-times", want + (n - 1) * bias, f"`down_bias` is in it {n} times, once from every rank."),
            Mistake("no-bias", want - bias, "`down_bias` is missing."),
        ]
    return tensor_fault(
        f"Rank {rank}: y",
        got["y"],
        want,
        slips,
        otherwise="Which outputs of the first product does this rank's piece of `down` take?",
    )


def _partials(case: Case, kind: str, n: int) -> list[Tensor]:
    whole = {name: w for name, w in case.secret.items() if name != "gradient"}
    call = _mlp(kind)
    zero = torch.zeros_like(whole["x"][0, 0])
    found = []
    for rank in range(n):
        piece = {**_mlp_piece({k: w for k, w in whole.items() if k != "x"}, n, rank), "x": whole["x"]}
        found.append(call({**piece, "down_bias": zero} if kind == "gelu" else piece))
    return found


def _mlp_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    kind, n = params["kind"], case.ranks or 1
    if fault := results(outcome.value, n, FORM):
        return [verdict(case.kind, case.part, case, fault)]
    whole = {name: w for name, w in case.secret.items() if name != "gradient"}
    y, grads = whole_gradients(_mlp(kind), whole, case.secret["gradient"])
    partial = _partials(case, kind, n)
    output = over_ranks(outcome.value, lambda rank, got: _mlp_output(case, params, rank, got, y, partial)) or touched(
        outcome.value
    )
    names = [name for name in whole if name != "x"]

    def gradients(rank: int, got: Mapping[str, Any]) -> Fault | None:
        want = {"x": grads["x"], **_mlp_piece({name: grads[name] for name in names}, n, rank)}
        each = [
            (
                name,
                (
                    Mistake(
                        "times-n",
                        n * want[name],
                        f"it is {n} times too large: behind the sum all ranks hold the same, so its gradient is not summed again.",
                    ),
                    Mistake("divided", want[name] / n, f"it is {n} times too small."),
                ),
            )
            for name in want
        ]
        own = _own_input_gradient(case, kind, n, rank)
        slips = dict(each)
        slips["x"] = (
            Mistake(
                "not-summed",
                own,
                "this is what this rank sends back, alone: every rank used x, so all of them count. What stands in "
                "front of the region?",
            ),
            *slips["x"],
        )
        return gradient_faults(got, rank, list(want), want, slips)

    found = over_ranks(outcome.value, gradients)
    if case.kind != "values":
        return [verdict(case.kind, case.part, case, output or found)]
    x = case.secret["x"]
    size, most = x.numel() * x.element_size(), ring_most(x.numel(), x.element_size(), n)
    spent = traffic(
        outcome.meter, 4 * (n - 1) * size, 2 * most, _mlp_known(case, n), "One all-reduce of a tensor like x each way."
    )
    if output:
        return [verdict("values", "output", case, output), verdict("values", "gradients", case, after(output))]
    return [
        verdict("values", "output", case, None),
        *judged(as_part(case, "gradients"), found, ("cost", "bytes", spent)),
    ]


def _own_input_gradient(case: Case, kind: str, n: int, rank: int) -> Tensor:
    pieces = _mlp_piece({k: w for k, w in case.secret.items() if k not in ("x", "gradient")}, n, rank)
    _, grads = whole_gradients(_mlp(kind), {"x": case.secret["x"], **pieces}, case.secret["gradient"])
    return grads["x"]


MLP = {
    "parallel-mlp": Judging(
        shares={"values:output": 0.25, "values:gradients": 0.3, "cost:bytes": 0.3, "generality:shapes": 0.15},
        cases=_mlp_cases,
        verdicts=_mlp_verdicts,
        why="A column cut gives each rank whole outputs, so that whatever acts number by number can follow at once; a row cut takes just these as "
        "its inputs. Only the sum behind it needs the others, and, on the way back, the gradient of what all used. Two messages, however wide "
        "the middle is.",
        pytorch='`parallelize_module(mlp, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})`.',
    )
}
