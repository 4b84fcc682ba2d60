"""Judge of chapter 07's break-even: tokens per GPU at which communication begins to show, and how many GPUs that allows."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch07.cards.more import BEHIND
from course_lib.exercises.probes import NOT_ANSWERED
from course_lib.judging import Judging, Mistake, Params, describe, number_verdict, verdict
from course_lib.judging.draws import plain
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import GB, TFLOP


def _tokens(params: Params, flops: float, bandwidth: float, ranks: int, grad_bytes: float) -> float:
    return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / params["flops_each"]


def _gpus(params: Params, batch: float, flops: float, bandwidth: float, grad_bytes: float) -> float:
    return 1 + batch * params["flops_each"] * bandwidth / (2 * grad_bytes * flops)


def _even_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = (params["rate"], params["bandwidth"], params["ranks"], 2)
    fleet = (params["batch"], params["rate"], params["bandwidth"], 2)
    rates, speeds = [150 * TFLOP, 400 * TFLOP, 900 * TFLOP], [25 * GB, 50 * GB, 100 * GB, 450 * GB]
    table = [
        (rng.choice(rates), rng.choice(speeds), rng.choice((2, 3, 8, 64, 1024)), rng.choice((1, 2, 4)))
        for _ in range(40)
    ]
    fleets: list[tuple[float, ...]] = []
    while len(fleets) < 40:
        row = (float(rng.randrange(20_000, 8_000_000)), rng.choice(rates), rng.choice(speeds), rng.choice((1, 2, 4)))
        if 0.02 < _gpus(params, *row) % 1 < 0.98:  # not at the edge of a whole number, where rounding would decide
            fleets.append(row)
    machines = [(rate, speed) for rate in rates for speed in speeds]
    exact = [
        (rate, speed) for rate, speed in machines if speed != 450 * GB
    ]  # batches that float arithmetic leaves whole
    whole = [
        (*each, n, 2) for each in machines for n in (8, 64) if _tokens(params, *each, n, 2) % 1 == 0
    ]  # as the ones shown
    large = [
        (4 * (n - 1) * rate / (params["flops_each"] * speed), rate, speed, 2)
        for n, (rate, speed) in zip((64, 256, 1024), rng.sample(exact, 3), strict=True)
    ]
    return [
        Case(name="shown", args=(0, [shown]), part="tokens"),
        Case(name="shown", args=(1, [fleet]), part="gpus"),
        plain("tokens", 0, "three more links and GPUs", rng.sample(whole, 3)),
        plain("gpus", 1, "three more batches", large),
        Case(name="one GPU alone", args=(0, [(4e14, 50e9, 1, 2)]), kind="generality", part="tokens", visible=False),
        Case(name="40 other links and GPUs", args=(0, table), kind="generality", part="tokens", visible=False),
        Case(name="40 other batches", args=(1, fleets), kind="generality", part="gpus", visible=False),
        Case(
            name="a batch so small that one GPU is all",
            args=(1, [(500.0, 9e14, 25e9, 4)]),
            kind="generality",
            part="gpus",
            visible=False,
        ),
    ]


def _even_mistakes(params: Params, index: int, row: Sequence[Any]) -> list[Mistake]:
    other = next(k for k, _ in BEHIND.values() if k != params["flops_each"])
    swapped = {**params, "flops_each": other}
    name = "public-form" if params["behind"] == "backward" else "wrong-window"
    window = (
        "this hides behind the "
        + ("whole step" if other == 6 else "backward pass alone")
        + "; what is asked for stands in the task."
    )
    if index == 0:
        right = _tokens(params, *row)
        endless = 2 * row[3] / row[1] * row[0] / params["flops_each"]
        return [
            Mistake(name, _tokens(swapped, *row), window),
            Mistake(
                "endless-ring",
                endless,
                "this is the limit of very many GPUs; the ring's factor depends on how many there are.",
            ),
            Mistake("rounded", round(right), "this is a whole number; tokens are an average here: do not round."),
            Mistake("rounded", math.ceil(right), "this is a whole number; tokens are an average here: do not round."),
            Mistake("rounded", math.floor(right), "this is a whole number; tokens are an average here: do not round."),
            Mistake("one-half", right / 2, "a ring all-reduce has two halves; this counts one of them."),
            Mistake("bits", right * 8, "bytes and bits are mixed up: `grad_bytes` are bytes."),
            Mistake("bits", right / 8, "bytes and bits are mixed up: `grad_bytes` are bytes."),
            Mistake("all-gpus", right * row[2], "these are the tokens of all GPUs; a GPU's own are asked for."),
            Mistake(
                "forward-only",
                _tokens({"flops_each": 2}, *row),
                "2 FLOPs per parameter and token are the forward pass's.",
            ),
        ]
    exact = _gpus(params, *row)
    return [
        Mistake(name, math.floor(_gpus(swapped, *row)), window),
        Mistake(
            "one-too-few", math.floor(exact - 1), "the ring's factor is (N − 1)/N, not 1: there is room for one more."
        ),
        Mistake("not-whole", exact, "a number of GPUs is whole."),
        Mistake("rounded-up", math.ceil(exact), "with that many it shows already: go down to the next whole number."),
        Mistake("one-half", math.floor(2 * exact - 1), "a ring all-reduce has two halves; this counts one of them."),
    ]


def _even_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    index, table = case.args
    part, got = ("tokens", "gpus")[index], outcome.value
    if got == NOT_ANSWERED:
        return [verdict(case.kind, part, case, ("not-answered", "`most_gpus` is not answered yet."))]
    if type(got) is not list or len(got) != len(table):
        return [
            verdict(case.kind, part, case, ("no-numbers", f"Got {describe(got)}; a number for each call is to come."))
        ]
    first: Verdict | None = None
    for row, value in zip(table, got, strict=True):
        want = _tokens(params, *row) if index == 0 else math.floor(_gpus(params, *row))
        here = number_verdict(
            part,
            case,
            value,
            want,
            unit=("tokens", "GPUs")[index],
            rel=1e-6 if index == 0 else 1e-9,
            kind=case.kind,
            mistakes=_even_mistakes(params, index, row),
        )
        first = first or (here if not here.ok else None)
    return [first or verdict(case.kind, part, case, None)]


EVEN = {
    "break-even": Judging(
        shares={"values:tokens": 0.35, "values:gpus": 0.25, "generality:tokens": 0.2, "generality:gpus": 0.2},
        cases=_even_cases,
        verdicts=_even_verdicts,
        why="Bytes and FLOPs both grow with the parameters, so their number goes away: what decides is how many tokens a GPU has for each "
        "parameter it must talk about. A fixed batch over more GPUs means fewer tokens each; at N − 1 = k·B·β / (2·g·F) the time to hide "
        "behind is used up.",
        pytorch="No setting changes this balance except fewer bytes (`bf16_compress_hook`), more tokens, or fewer GPUs in the group.",
    )
}
