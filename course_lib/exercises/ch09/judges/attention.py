"""The judge of chapter 09's attention by heads, with copies of KV heads on several ranks."""

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
from course_lib.judging import Fault, Judging, Mistake, Params, verdict
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict


def _attend(head_dim: int) -> Callable[[Weights], Tensor]:
    def call(w: Weights) -> Tensor:
        q, k, v = (
            F.linear(w["x"], w[name]).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in ("wq", "wk", "wv")
        )
        repeat = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        seq = q.shape[2]
        scores = (q @ k.transpose(2, 3)) * head_dim**-0.5
        scores = scores.masked_fill(torch.ones(seq, seq, dtype=torch.bool).triu(1), float("-inf"))
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), w["wo"])

    return call


def _attention_piece(whole: Weights, n: int, kv: int, rank: int) -> dict[str, Tensor]:
    """This rank's rows of q, k and v and columns of the output, KV heads copied where there are more ranks."""
    owners = min(n, kv)
    return {
        "wq": part(whole["wq"], n, rank),
        "wk": part(whole["wk"], owners, rank * owners // n),
        "wv": part(whole["wv"], owners, rank * owners // n),
        "wo": part(whole["wo"], n, rank, 1),
    }


def _groups(n: int, kv: int) -> tuple[tuple[int, ...], ...]:
    size = max(1, n // kv)
    return tuple(tuple(range(first, first + size)) for first in range(0, n, size))


def _attention_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, head_dim, seq = coin_of(rng), params["head_dim"], params["tokens"]

    def make(
        n: int, heads: int, kv: int, hidden: int, dtype: torch.dtype = torch.float32, batch: int = 2, **more: Any
    ) -> Case:
        shapes = {
            "wq": (heads * head_dim, hidden),
            "wk": (kv * head_dim, hidden),
            "wv": (kv * head_dim, hidden),
            "wo": (hidden, heads * head_dim),
        }
        whole = {name: normal(coin, *shape, dtype=dtype) for name, shape in shapes.items()}
        whole["wk"] /= hidden**0.5  # so that softmax decides nothing alone
        whole["wq"] /= hidden**0.5
        x, gradient = (normal(coin, batch, seq, hidden, dtype=dtype), normal(coin, batch, seq, hidden, dtype=dtype))
        per_rank = tuple(
            (x.clone(), gradient.clone(), head_dim, _groups(n, kv), _attention_piece(whole, n, kv, rank))
            for rank in range(n)
        )
        plural = "" if n == 1 else "s"
        name = f"{n} rank{plural}, {heads} query heads, {kv} KV heads"
        return case_of(name, n, per_rank, secret={**whole, "x": x, "gradient": gradient, "kv": kv}, **more)

    return [
        make(4, 8, 4, 12, part="output"),
        make(4, 8, 2, 12, part="output", visible=False),
        make(2, 8, 4, 10, part="output", visible=False),
        make(1, 4, 2, 8, kind="generality", part="heads", visible=False),
        make(3, 3, 3, 9, kind="generality", part="heads", visible=False),
        make(4, 8, 1, 8, torch.float64, kind="generality", part="heads", visible=False),
        make(6, 12, 3, 8, batch=1, kind="generality", part="heads", visible=False),
    ]


def _attention_output(case: Case, head_dim: int, rank: int, got: Mapping[str, Any], want: Tensor) -> Fault | None:
    n = case.ranks or 1
    whole = {name: w for name, w in case.secret.items() if name not in ("gradient", "kv")}
    piece = {"x": whole["x"], **_attention_piece(whole, n, case.secret["kv"], rank)}
    own = _attend(head_dim)(piece)
    slips = (
        Mistake("own-part", own, "this is what this rank's heads yield; all ranks' parts add up."),
        Mistake("mean", want / n, "this is a mean of the ranks' parts; they add up."),
        *_other_attentions(whole, head_dim, [_attention_piece(whole, n, case.secret["kv"], each) for each in range(n)]),
    )
    return tensor_fault(
        f"Rank {rank}: y",
        got["y"],
        want,
        slips,
        otherwise="Which KV head does each query head of this rank look at, and which numbers of a row belong to one head?",
    )


def _other_attentions(whole: Weights, d: int, pieces: Sequence[Weights]) -> list[Mistake]:
    def run(w: Weights, mask: bool, scale: float, turned: bool) -> Tensor:
        q, k, v = (F.linear(whole["x"], w[name]).unflatten(-1, (-1, d)).transpose(1, 2) for name in ("wq", "wk", "wv"))
        repeat = q.shape[1] // k.shape[1]
        k, v = ((t.repeat(1, repeat, 1, 1) if turned else t.repeat_interleave(repeat, 1)) for t in (k, v))
        scores = q @ k.transpose(2, 3) * scale
        if mask:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
        return F.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2), w["wo"])

    wrong = "query heads look at other KV heads than their own: head i belongs to KV head i // (q / k), so neighbours share one."
    return [
        Mistake(
            "no-mask",
            run(whole, False, d**-0.5, False),
            "tokens look at tokens that come after them; attention is causal.",
        ),
        Mistake("another-scale", run(whole, True, 1.0, False), "scores are not scaled by head_dim^−½."),
        Mistake("wrong-heads", sum(run(piece, True, d**-0.5, True) for piece in pieces), wrong),
        Mistake("wrong-heads", run(whole, True, d**-0.5, True), wrong),
    ]


def _attention_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, d, kv = case.ranks or 1, params["head_dim"], case.secret["kv"]
    if fault := results(outcome.value, n, FORM):
        return [verdict(case.kind, case.part, case, fault)]
    whole = {name: w for name, w in case.secret.items() if name not in ("gradient", "kv")}
    y, grads = whole_gradients(_attend(d), whole, case.secret["gradient"])
    output = over_ranks(outcome.value, lambda rank, got: _attention_output(case, d, rank, got, y)) or touched(
        outcome.value
    )
    copies = max(1, n // kv)

    def gradients(names: Sequence[str]) -> Fault | None:
        def check(rank: int, got: Mapping[str, Any]) -> Fault | None:
            want = {"x": grads["x"], **_attention_piece(grads, n, kv, rank)}
            own = whole_gradients(
                _attend(d), {"x": whole["x"], **_attention_piece(whole, n, kv, rank)}, case.secret["gradient"]
            )[1]
            slips: dict[str, tuple[Mistake, ...]] = {
                name: (
                    Mistake(
                        "times-n",
                        n * want[name],
                        f"it is {n} times too large: behind the sum all ranks hold the same, so its gradient is not summed again.",
                    ),
                    Mistake("times-copies", copies * want[name], "it is summed over the copies twice."),
                    Mistake("divided", want[name] / n, f"it is {n} times too small."),
                    Mistake(
                        "mean", want[name] / copies, "this is a mean over the copies; what they send back adds up."
                    ),
                )
                for name in want
            }
            slips["x"] = (
                Mistake(
                    "not-summed",
                    own["x"],
                    "this is what this rank sends back, alone: every rank used x, so all of them count.",
                ),
                *slips["x"],
            )
            for name in ("wk", "wv"):
                slips[name] = (
                    Mistake(
                        "copies-apart",
                        own[name],
                        "this is what this rank's query heads send back, alone. Other ranks hold copies of the "
                        "same KV head, and step by another gradient: after one step they are no copies.",
                    ),
                    *slips[name],
                )
            return gradient_faults(got, rank, names, want, slips)

        return over_ranks(outcome.value, check)

    if case.kind != "values":
        return [verdict(case.kind, case.part, case, output or gradients(("x", "wq", "wo", "wk", "wv")))]
    if output:
        return [
            verdict("values", share, case, output if share == "output" else after(output))
            for share in ("output", "gradients", "copies")
        ]
    plain, copied = gradients(("x", "wq", "wo")), gradients(("wk", "wv"))
    verdicts = [
        verdict("values", "output", case, None),
        verdict("values", "gradients", case, plain),
        verdict("values", "copies", case, copied),
    ]
    return (
        verdicts
        if plain or copied
        else [*verdicts, verdict("cost", "bytes", case, _attention_bytes(case, n, copies, d, outcome.meter))]
    )


def _attention_bytes(case: Case, n: int, copies: int, d: int, meter: Meter) -> Fault | None:
    x, wk = case.secret["x"], case.secret["wk"]
    item, here = x.element_size(), wk.numel() // min(n, case.secret["kv"])
    one, shared = ring_most(x.numel(), item, n), 2 * ring_most(here, item, copies)
    heads = case.secret["wq"].shape[0] * x.numel() // x.shape[-1] * (n - 1) / n * item
    known = [
        *(
            Mistake(
                "an-operator-each",
                extra,
                "Queries, keys and values enter through an operator each: three all-reduces in the backward pass. What enters "
                "once needs one operator, in front of all three.",
            )
            for extra in (one, 2 * one)
        ),
        *(
            Mistake(
                "gathered-heads",
                times * heads,
                "The heads' outputs are gathered: each rank's piece of `wo` takes just what its own heads yield.",
            )
            for times in (1, 2)
        ),
    ]
    least = 4 * (n - 1) * x.numel() * item + (n // copies) * 4 * (copies - 1) * here * item
    return traffic(
        meter,
        least,
        2 * one + shared,
        known,
        "One all-reduce of a tensor like x each way, and copied KV weights' gradients.",
    )


ATTENTION = {
    "parallel-attention": Judging(
        shares="values:output 0.2, values:gradients 0.2, values:copies 0.15, cost:bytes 0.25, generality:heads 0.2",
        cases=_attention_cases,
        verdicts=_attention_verdicts,
        why="Heads never look at each other, so they are to attention what columns are to the MLP: q, k and v are cut by columns, the output by rows. "
        "A KV head on several ranks is a tensor that enters several computations: its gradient is the sum over its copies.",
        pytorch="Megatron copies KV heads when `tensor-model-parallel-size` exceeds `num-query-groups`; torch's DTensor plan cuts q, k, v column-wise "
        "and the output row-wise.",
    )
}
