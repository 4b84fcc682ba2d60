"""Judges of chapter 12's router: parameters by what a token uses, and the k largest logits with ties."""

import random
from functools import partial
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Mistake, Params, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.columns import EXACT, Column, table
from course_lib.judging.draws import draw_rows, each_changed, generality, plain
from course_lib.judging.tensors import close, coin_of, kind_fault
from course_lib.records import Case, Outcome, Verdict

MATRICES = 3  # of a gated MLP


def parameters(shared: int, what: str, layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> int:
    """All parameters ("total") or those of one token ("active")."""
    used = (experts if what == "total" else k) + shared
    return layers * (used * MATRICES * width * ffn + width * experts) + other


def _parameter_cases(params: Params, rng: random.Random) -> list[Case]:
    mixtral = (32, 4096, 14336, 8, 2, 1_605_636_096)
    size = ((2, 3, 12), (48, 96, 128), (32, 80, 512), (4, 9, 64), (1, 2, 3), (0, 777, 50_000))
    one = [(5, 64, 96, 16, 1, 10_000), (1, 32, 48, 6, 2, 0)]
    every = [(4, 64, 40, 4, 4, 900), (3, 32, 64, 1, 1, 500)]
    alike = each_changed((5, 64, 96, 16, 2, 10_000), (61, 7168, 2048, 256, 8, 777))
    return [
        Case(name="Mixtral 8x7B", args=(0, [mixtral]), part="total"),
        Case(name="one token of Mixtral 8x7B", args=(1, [mixtral]), part="active"),
        plain("total", 0, "other models", draw_rows(rng, 4, *size) + alike),
        plain("active", 1, "other models, one token", draw_rows(rng, 4, *size)),
        generality("edges", 1, "one expert a token, one layer, one number that differs", one + alike),
        generality("edges", 1, "every expert for every token", every),
    ]


def _model_text(layers: int, width: int, ffn: int, experts: int, k: int, other: int) -> str:
    return f"{layers} layers, width {width:,}, experts of {ffn:,}, {k} of {experts}, {other:,} others"


def _parameter_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    shared = params["shared"]

    def column(what: str, part: str) -> Column:
        right = partial(parameters, shared, what)

        def plain_form(*row: int) -> int:
            return parameters(0, what, *row)

        def router(*row: int) -> int:
            return row[0] * row[1] * row[3]

        public = [
            Mistake("public-form", plain_form, "this solves the public form of the exercise, without a shared expert.")
        ]
        return Column(
            part=part,
            unit="parameters",
            want=right,
            words=_model_text,
            rel=EXACT,
            mistakes=(
                *(public if shared else ()),
                Mistake("no-router", lambda *row: right(*row) - router(*row), "the routers are missing."),
                Mistake(
                    "all-experts",
                    lambda *row: parameters(shared, "total", *row) if what == "active" else None,
                    "these are all experts; one token uses only k of them.",
                ),
                Mistake(
                    "only-active",
                    lambda *row: parameters(shared, "active", *row) if what == "total" else None,
                    "these are the experts of one token; all of them must be stored.",
                ),
                Mistake(
                    "two-matrices",
                    lambda *row: (
                        right(*row) - row[0] * row[1] * row[2] * ((row[3] if what == "total" else row[4]) + shared)
                    ),
                    "a gated MLP has three matrices, not two.",
                ),
                Mistake(
                    "router-of-k",
                    lambda *row: right(*row) - router(*row) + row[0] * row[1] * row[4],
                    "the router computes a score for every expert, also for those that are not chosen.",
                ),
                Mistake(
                    "experts-times-all",
                    lambda *row: right(*row) + (row[3] - 1) * row[5],
                    "attention and embeddings exist once, not once per expert: “8x7B” is not 8 models.",
                ),
                Mistake("one-layer", lambda *row: right(1, *row[1:]), "this is one layer."),
                Mistake("no-others", lambda *row: right(*row[:5], 0), "the other parameters are missing."),
            ),
        )

    active_part = "active" if case.kind == "values" else "edges"
    return table(column("total", "total"), column("active", active_part))(params, case, outcome)


# --- route-tokens


def top(logits: Tensor, k: int) -> Tensor:
    """The ids of the k largest logits, ties to the lower id."""
    return logits.argsort(dim=-1, descending=True, stable=True)[:, :k]


def weights_of(softmax: str, logits: Tensor, ids: Tensor) -> Tensor:
    """The weights of chosen experts, in the dtype of the logits."""
    if softmax == "chosen":
        return logits.gather(1, ids).softmax(-1)
    return logits.softmax(-1).gather(1, ids)


def _route_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, n = coin_of(rng), params["experts"]

    def data(
        tokens: int, experts: int, k: int, dtype: torch.dtype = torch.float32, around: float = 0.0
    ) -> tuple[Any, ...]:
        logits = (torch.randn(tokens, experts, generator=coin) + around).to(dtype)
        return logits, k, torch.randn(tokens, k, generator=coin)

    def tied(tokens: int, experts: int, k: int, dtype: torch.dtype) -> tuple[Any, ...]:
        logits, k, slope = data(tokens, experts, k, dtype=dtype)
        return (logits.float() * 2).round().to(dtype), k, slope

    near = 2.0**-7 + torch.rand(9, 7, generator=coin).argsort(-1) * 2.0**-30  # neighbors in fp32
    far = torch.tensor([[-130.0, -150.0, 0.0, -120.0, -110.0], [1e-30, 2e-30, 0.0, -1e-30, 3e-30]])  # or nearly equal

    return [
        shown(f"{params['tokens']} tokens, 2 of {n} experts", "values:ids", *data(params["tokens"], n, 2)),
        hidden("9 tokens, 3 of 7 experts", "values:ids", *data(9, 7, 3)),
        hidden("5 tokens, 2 of 4 experts, other weights", "values:weights", *data(5, 4, 2)),
        hidden("logits of about 120", "values:weights", *data(6, 5, 3, around=120.0)),
        hidden("logits of about −200", "values:weights", *data(4, 5, 2, around=-200.0)),
        hidden("bf16 logits", "values:weights", *data(6, 8, 2, dtype=torch.bfloat16)),
        hidden("ties", "generality:ties", *tied(12, 64, 4, torch.float32)),
        hidden("ties in bf16", "generality:ties", *tied(12, 80, 6, torch.bfloat16)),
        hidden(
            "equal logits everywhere",
            "generality:ties",
            torch.zeros(3, 33),
            2,
            torch.ones(3, 2) * torch.tensor([1.0, 2.0]),
        ),
        hidden("logits that differ in the last bit", "generality:ties", near, 3, torch.randn(9, 3, generator=coin)),
        hidden("logits far apart, and close", "generality:ties", far, 3, torch.ones(2, 3)),
        hidden("one expert a token", "generality:sizes", *data(6, 5, 1)),
        hidden("every expert", "generality:sizes", *data(4, 5, 5)),
        hidden("one token and one expert", "generality:sizes", *data(1, 1, 1)),
        hidden("no tokens", "generality:sizes", *data(0, 6, 2)),
    ]


FINE = 2e-5  # of the largest weight: the log-sum-exp of large logits, rounded to fp32, is off by half of this
OTHER = {"chosen": "all", "all": "chosen"}


def route_fault(softmax: str, case: Case, got: Any) -> Fault | None:
    """What is wrong with ids, weights or the gradient."""
    given, k, slope = case.args
    if got["changed"] is not False:
        return "changed", "the logits were changed; make new tensors."
    ids = top(given, k)
    wide = given.double().requires_grad_()
    want = weights_of(softmax, wide, ids)
    if fault := kind_fault("`ids`", got["ids"], ids):
        return fault
    if fault := kind_fault("`weights`", got["weights"], want.float()):
        return fault
    if not torch.equal(got["ids"], ids):
        return _ids_fault(given, ids, got["ids"])
    if not close(got["weights"], want.float(), FINE):
        return _weights_fault(softmax, given, ids, got["weights"], want.float())
    if not len(given):
        return None
    (want * slope).sum().backward()
    grad, right = got["gradient"], wide.grad
    if grad.shape == (0,):
        return "no-gradient", "no gradient reaches the logits, so the router cannot learn."
    if fault := kind_fault("The gradient", grad, given):
        return fault
    rel = 1e-2 if given.dtype == torch.bfloat16 else 1e-4
    floor = 1e-2  # with one chosen expert the right gradient may be zero
    return (
        None if close(grad.double(), right, rel, floor) else ("other-gradient", "the gradient of the weights is wrong.")
    )


def _ids_fault(given: Tensor, ids: Tensor, got: Tensor) -> Fault:
    if torch.equal(got.sort(-1).values, ids.sort(-1).values):
        return (
            "other-order",
            "these are the right experts in another order; the largest logit comes first, of ties the lower id.",
        )
    if got.numel() and got.min() >= 0 and got.max() < given.shape[1]:
        picked = given.gather(1, got)
        if torch.equal(picked, given.gather(1, ids)) and bool((got.sort(-1).values.diff(dim=-1) > 0).all()):
            return "ties", "equal logits are not broken by the lower id, so two replicas may choose different experts."
        if torch.equal(got, top(-given, got.shape[1])):
            return "smallest", "these are the smallest logits."
    return "other-ids", "these are not the experts with the largest logits."


def _weights_fault(softmax: str, given: Tensor, ids: Tensor, got: Tensor, want: Tensor) -> Fault:
    other = weights_of(OTHER[softmax], given.double(), ids).float()
    if close(got, other, FINE):
        if softmax == "all":
            return "public-form", "this solves the public form of the exercise: these weights add up to 1."
        return (
            "not-renormalized",
            "these are weights of the softmax over all experts; over the chosen ones they add up to 1.",
        )
    if close(got, given.double().gather(1, ids).float(), 1e-6):
        return "raw-logits", "these are the logits; apply the softmax."
    if close(got, want, 1e-2):
        return "rounded", "the weights are close but not exact. Was the softmax computed in bf16?"
    return "other-weights", "the weights are wrong."


ROUTING = {
    "active-parameters": Judging(
        shares={"values:total": 0.4, "values:active": 0.4, "generality:edges": 0.2},
        cases=_parameter_cases,
        verdicts=_parameter_verdicts,
        why="""Memory follows the total, and FLOPs follow the active parameters: 6 per active parameter and token in training. Only the experts
are multiplied, so “8x7B” has fewer than 8 times 7 billion parameters.""",
        pytorch="`sum(p.numel() for p in model.parameters())` is the total; nothing in PyTorch knows which of them a token uses.",
    ),
    "route-tokens": Judging(
        shares={"values:ids": 0.25, "values:weights": 0.25, "generality:ties": 0.25, "generality:sizes": 0.25},
        cases=_route_cases,
        verdicts=lambda params, case, outcome: judged(
            case, route_fault(params["softmax"], case, outcome.value), named=True
        ),
        why="""The choice has no gradient; the weights carry all of it. With one expert a token and weights that add up to 1, the weight is always 1
and the router learns nothing from the loss. A stable sort breaks ties alike on every rank.""",
        pytorch="`torch.topk(logits.softmax(-1), k)`; its order among equal numbers may differ between devices.",
    ),
}
