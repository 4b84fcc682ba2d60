"""The judge of chapter 09's backward pass that hides its all-reduce behind a product."""

import random
from collections.abc import Mapping
from typing import Any

from course_lib.cluster import Topology
from course_lib.exercises.ch09.judges.regions import case_of, results, ring_most, touched, traffic
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, judged, verdict
from course_lib.judging.ranks import LATE, STREAM_LATE
from course_lib.judging.tensors import coin_of, normal, tensor_fault
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict

FORM = ("got", "products", "touched")
LINK = Topology().levels[0]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, tokens = coin_of(rng), params["tokens"]

    def make(name: str, n: int, seconds: float, hidden: int = 12, out: int = 6, **more: Any) -> Case:
        x = normal(coin, tokens, hidden)
        per_rank = tuple((seconds, normal(coin, tokens, out), x.clone(), normal(coin, out, hidden)) for _ in range(n))
        return case_of(name, n, per_rank, **more)

    cases = [
        make("four ranks, long products", 4, 100e-6, part="products"),
        make("four ranks, short products", 4, 20e-6, part="products", visible=False),
        make("two ranks, wide layer", 2, 60e-6, 40, 3, part="products", visible=False),
        make("one rank", 1, 10e-6, kind="generality", part="ranks", visible=False),
        make("three ranks, one output each", 3, 30e-6, 5, 1, kind="generality", part="ranks", visible=False),
    ]
    return cases + [
        make(f"four ranks, {unkind}", 4, 50e-6, kind="protocol", part="in-flight", visible=False, adversary=unkind)
        for unkind in (LATE, STREAM_LATE)
    ]


def _values(case: Case, rank: int, got: Mapping[str, Any]) -> Fault | None:
    n, given = case.ranks or 1, case.per_rank or ()
    _, grad, x, weight = given[rank]
    pair = got["got"]
    if type(pair) not in (tuple, list) or len(pair) != 2:
        return "no-pair", f"Rank {rank} returned {describe(pair)}; return the pair (dx, dw)."
    own = grad @ weight
    total = sum(each[1].double() @ each[3].double() for each in given).float()
    dx = (
        (
            Mistake("not-summed", own, "this is what this rank's outputs send back, alone; all ranks' count."),
            Mistake("mean", total / n, "this is a mean."),
        )
        if n > 1
        else ()
    )
    right = grad.T @ x
    summed = sum(each[1].T @ each[2] for each in given)
    return first(
        tensor_fault(f"Rank {rank}: dx", pair[0], total, dx, otherwise="Was it returned before the sum had come?"),
        tensor_fault(
            f"Rank {rank}: dw",
            pair[1],
            right,
            (
                Mistake(
                    "summed-dw",
                    summed,
                    "each rank's rows of W are its own, and so is their gradient: nobody else has a part of it.",
                ),
                Mistake("transposed", right, ""),
            )
            if n > 1
            else (),
        ),
    )


def _time(case: Case, meter: Meter, elements: int, n: int) -> Fault | None:
    product = (case.per_rank or ())[0][0]
    chunk = -(-elements // n) * 4
    reduce = 2 * (n - 1) * (LINK.latency + chunk / LINK.bandwidth)
    best = 2 * product + max(0.0, reduce - product)
    if meter["seconds"] <= best + 1.5 * LINK.latency * (n > 1):
        return None
    return "nothing-hidden", (
        f"It takes {meter['seconds'] * 1e6:.0f} µs, where {best * 1e6:.0f} are enough: a product takes {product * 1e6:.0f}, the "
        f"all-reduce about {reduce * 1e6:.0f}, and they run one after the other. Start the sum as soon as dx is there, and wait "
        "for it when there is nothing left to do."
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, given = case.ranks or 1, case.per_rank or ()
    if fault := results(outcome.value, n, FORM):
        return [verdict(case.kind, case.part, case, fault)]
    fault = next(
        (found for rank, got in enumerate(outcome.value) if (found := _values(case, rank, got))), None
    ) or touched(outcome.value)
    if case.adversary is not None:
        if fault:
            fault = (
                "in-flight",
                f"With {case.adversary}, results change: dx is read or written between the start of its all-reduce and its "
                "`wait()`.",
            )
        return judged(case, fault)
    x = given[0][2]
    counts = [got["products"] if type(got["products"]) is int else None for got in outcome.value]
    made: Fault | None = None
    if any(count != 2 for count in counts):
        rank = next(rank for rank, count in enumerate(counts) if count != 2)
        made = (
            "other-products",
            f"Rank {rank} made {describe(counts[rank])} products with `matmul`; two are needed, and each takes its time there.",
        )
    size, one = x.numel() * x.element_size(), ring_most(x.numel(), x.element_size(), n)
    extra = ring_most(given[0][3].numel(), x.element_size(), n)
    known = (Mistake("summed-dw", extra, "dW is summed over ranks, too; it is this rank's own."),)
    return judged(
        case,
        fault,
        ("protocol", "products", made),
        ("cost", "bytes", traffic(outcome.meter, 2 * (n - 1) * size, one, known, "One all-reduce of dx.")),
        ("cost", "overlap", _time(case, outcome.meter, x.numel(), n)),
    )


OVERLAP = {
    "overlap-backward": Judging(
        shares="values:products 0.3, cost:overlap 0.35, cost:bytes 0.1, protocol:products 0.1, "
        "protocol:in-flight 0.05, generality:ranks 0.1",
        cases=_cases,
        verdicts=_verdicts,
        why="dx is what the layer below waits for and what has to travel, so it comes first; dW nobody waits for, so it fills the time. In the forward "
        "pass there is no such filler: the next product needs the sum.",
        pytorch="Megatron's `LinearWithGradAccumulationAndAsyncCommunication` starts the all-reduce of the input's gradient between the two products.",
    )
}
