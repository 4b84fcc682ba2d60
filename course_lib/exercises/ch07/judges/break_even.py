"""Judge of break-even: how many GPUs until communication shows?"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from course_lib.exercises.ch07.break_even import BEHIND
from course_lib.judging import Fault, Judging, Mistake, Params, number_fault
from course_lib.judging.cases import hidden
from course_lib.judging.draws import plain
from course_lib.judging.oracles import oracle
from course_lib.records import Case, Outcome
from course_lib.units import GB, TFLOP


def even_tokens(params: Params, flops: float, bandwidth: float, ranks: int, grad_bytes: float) -> float:
    """Tokens per GPU at which the ring takes as long as the computation that hides it."""
    return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / params["flops_each"]


def _gpus(params: Params, batch: float, flops: float, bandwidth: float, grad_bytes: float) -> float:
    return 1 + batch * params["flops_each"] * bandwidth / (2 * grad_bytes * flops)


def _even_cases(params: Params, rng: random.Random) -> list[Case]:
    shown = (params["rate"], params["bandwidth"], params["ranks"], 2)
    fleet = (params["batch"], params["rate"], params["bandwidth"], 2)
    rates, speeds = [150 * TFLOP, 400 * TFLOP, 900 * TFLOP], [25 * GB, 50 * GB, 100 * GB, 450 * GB]
    ranks, sizes = (2, 3, 8, 64, 1024, 24_576), (1, 2, 4)
    table = [(rng.choice(rates), rng.choice(speeds), rng.choice(ranks), rng.choice(sizes)) for _ in range(40)]
    fleets: list[tuple[float, ...]] = []
    while len(fleets) < 40:
        row = (float(rng.randrange(20_000, 8_000_000)), rng.choice(rates), rng.choice(speeds), rng.choice((1, 2, 4)))
        if 0.02 < _gpus(params, *row) % 1 < 0.98:  # not at the edge of a whole number, where rounding would decide
            fleets.append(row)
    batch, rate, speed, size = fleets[0]  # and three that differ from it in one place
    fleets += [(batch, 1.7 * rate, speed, size), (batch, rate, 2.2 * speed, size), (batch, rate, speed, 3)]
    machines = [(rate, speed) for rate in rates for speed in speeds]
    exact = [(rate, speed) for rate, speed in machines if speed != 450 * GB]  # float arithmetic leaves batches whole
    tasks = [(*machine, n, 2) for machine in machines for n in (8, 64)]
    whole = [task for task in tasks if even_tokens(params, *task) % 1 == 0]  # as the ones shown
    large = [
        (4 * (n - 1) * rate / (params["flops_each"] * speed), rate, speed, 2)
        for n, (rate, speed) in zip((64, 256, 1024), rng.sample(exact, 3), strict=True)
    ]
    return [
        Case(name="shown", args=(0, [shown]), part="tokens"),
        Case(name="shown", args=(1, [fleet]), part="gpus"),
        plain("tokens", 0, "three more links and GPUs", rng.sample(whole, 3)),
        plain("gpus", 1, "three more batches", large),
        hidden("one GPU alone", "generality:tokens", 0, [(4e14, 50e9, 1, 2)]),
        hidden("40 other links and GPUs", "generality:tokens", 0, table),
        hidden("40 other batches", "generality:gpus", 1, fleets),
        hidden("a batch so small that one GPU is all", "generality:gpus", 1, [(500.0, 9e14, 25e9, 4)]),
    ]


def _even_mistakes(params: Params, index: int, row: Sequence[Any]) -> list[Mistake]:
    other = next(flops for flops, _ in BEHIND.values() if flops != params["flops_each"])
    swapped = {**params, "flops_each": other}
    name = "public-form" if params["behind"] == "step" else "wrong-window"
    behind = "whole step" if other == 6 else "backward pass alone"
    window = f"this hides communication behind the {behind}, which is not what the task asks for."
    half = "a ring all-reduce has two halves, and this counts one of them."
    if index == 1:
        exact = _gpus(params, *row)
        return [
            Mistake(name, math.floor(_gpus(swapped, *row)), window),
            Mistake("one-too-few", math.floor(exact - 1), "the ring's factor is (N − 1)/N: one more GPU fits."),
            Mistake("not-whole", exact, "the number of GPUs must be whole."),
            Mistake("rounded-up", math.ceil(exact), "with that many, communication is exposed; round down."),
            Mistake("one-half", math.floor(2 * exact - 1), half),
        ]
    right = even_tokens(params, *row)
    endless = 2 * row[3] / row[1] * row[0] / params["flops_each"]
    whole = "this is rounded to a whole number; tokens per GPU need not be whole."
    return [
        Mistake(name, even_tokens(swapped, *row), window),
        Mistake("endless-ring", endless, "this is the limit for very many GPUs; the ring's factor is 2(N − 1)/N."),
        *(Mistake("rounded", rounded(right), whole) for rounded in (round, math.ceil, math.floor)),
        Mistake("one-half", right / 2, half),
        *(Mistake("bits", right * factor, "bits for bytes; `grad_bytes` is in bytes.") for factor in (8, 1 / 8)),
        Mistake("all-gpus", right * row[2], "these are the tokens of all GPUs; return the tokens of one."),
        Mistake("forward-only", even_tokens({"flops_each": 2}, *row), "2 FLOPs per parameter is the forward pass."),
    ]


def _even_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    index, rows = case.args
    unit, rel = (("tokens", 1e-6), ("GPUs", 1e-9))[index]
    for row, got in zip(rows, outcome.value, strict=True):
        want = even_tokens(params, *row) if index == 0 else math.floor(_gpus(params, *row))
        mistakes = _even_mistakes(params, index, row)
        if fault := number_fault(case.name, got, want, unit=unit, rel=rel, mistakes=mistakes):
            return fault
    return None


JUDGING = Judging(
    shares={"values:tokens": 0.35, "values:gpus": 0.25, "generality:tokens": 0.2, "generality:gpus": 0.2},
    cases=_even_cases,
    verdicts=oracle(_even_fault),
    why="Bytes and FLOPs both grow with the number of parameters, so it cancels. What decides is how many tokens each GPU processes per "
    "parameter that it sends. A fixed batch on more GPUs means fewer tokens on each. With k FLOPs per parameter and token to hide behind, "
    "gradients of g bytes and bandwidth β, the limit is N − 1 = k · batch · β / (2·g·F).",
    pytorch="No setting changes this balance except fewer bytes (`bf16_compress_hook`), more tokens, or fewer GPUs in the group.",
)

ANSWERS = r"""import math


# %% right: in formulas
def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / 4


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))


# %% right: two times of a model of one parameter, and a search by doubling
def seconds(tokens, flops, bandwidth, ranks, grad_bytes):
    return 4 * tokens / flops, 2 * (ranks - 1) * grad_bytes / ranks / bandwidth


def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
    computing, talking = seconds(1.0, flops, bandwidth, ranks, grad_bytes)
    return talking / computing


def most_gpus(batch_tokens, flops, bandwidth, grad_bytes):
    def hidden(n):
        computing, talking = seconds(batch_tokens / n, flops, bandwidth, n, grad_bytes)
        return talking <= computing

    low = 1
    while hidden(2 * low):
        low *= 2
    high = 2 * low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hidden(middle) else (low, middle)
    return low


# %% right: any variant  from: in formulas
# - def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
# + from course_lib import params
# + EACH = {"step": 6, "backward": 4}[params("break-even").behind]
# + def break_even_tokens(flops, bandwidth, ranks, grad_bytes):
# ~ flops / 4 ==> flops / EACH
# ~ batch_tokens * 4 * bandwidth ==> batch_tokens * EACH * bandwidth

# %% wrong: hides behind the whole step => values wrong-window unless behind=step  from: in formulas
# ~ flops / 4 ==> flops / 6
# ~ batch_tokens * 4 * bandwidth ==> batch_tokens * 6 * bandwidth

# %% wrong: very many ranks => values endless-ring  from: in formulas
# ~ (ranks - 1) / ranks * grad_bytes ==> grad_bytes

# %% wrong: one half of the ring => values one-half  from: in formulas
# ~ 2 * (ranks - 1) ==> (ranks - 1)
# ~ 2 * grad_bytes ==> grad_bytes

# %% wrong: bits => values bits  from: in formulas
# ~ grad_bytes / bandwidth ==> grad_bytes * 8 / bandwidth

# %% wrong: tokens of all GPUs => values all-gpus  from: in formulas
# ~ * (ranks - 1) / ranks * grad_bytes / bandwidth * flops ==> * (ranks - 1) * grad_bytes / bandwidth * flops

# %% wrong: the forward pass only => values forward-only  from: in formulas
# ~ flops / 4 ==> flops / 2

# %% wrong: forgets that the ring's factor shrinks => values one-too-few  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return max(1, int(batch_tokens / (2 * grad_bytes / bandwidth * flops / 4)))

# %% wrong: rounds up => generality rounded-up  from: in formulas
# ~ floor ==> ceil

# %% wrong: a fraction of a GPU => generality not-whole  from: in formulas
# ~ math.floor ==> float

# %% wrong: the shown numbers learnt by heart => values -  from: in formulas
# ~ (ranks - 1) / ranks * grad_bytes / bandwidth * flops ==> 63 / 64 * 2 / 50e9 * 400e12
# ~ math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)) ==> 251

# %% wrong: always 16 bits => generality -  from: in formulas
# ~ 2 * (ranks - 1) / ranks * grad_bytes ==> 4 * (ranks - 1) / ranks
# ~ 2 * grad_bytes ==> 4

# %% wrong: rounds tokens => generality rounded  from: in formulas
# -     return 2 * (ranks - 1) / ranks * grad_bytes / bandwidth * flops / 4
# +     return round(flops / 4 * 2 * grad_bytes * (ranks - 1) / (ranks * bandwidth))

# %% wrong: none for one => generality -  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     n = int(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return n if n > 1 else 0

# %% wrong: powers of two => values -  from: in formulas
# -     return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops))
# +     return 2 ** int(math.log2(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)))

# %% wrong: text => values not-a-number  from: the shown numbers learnt by heart
# ~ 2 * 63 / 64 * 2 / 50e9 * 400e12 / 4 ==> "7875 tokens"

# %% half: the tokens alone => 2.8  from: in formulas
# ~ return math.floor(1 + batch_tokens * 4 * bandwidth / (2 * grad_bytes * flops)) ==> raise NotImplementedError

# %% wrong: at most 1,024 ranks => generality ~  from: in formulas
# ~ (ranks - 1) / ranks * ==> (min(ranks, 1024) - 1) / min(ranks, 1024) *
"""
