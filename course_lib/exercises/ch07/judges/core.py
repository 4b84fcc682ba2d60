"""Judges of chapter 07's core: averages of parts, one synchronisation a step, the time that sticks out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib import collectives
from course_lib.exercises.ch07.judges.ranks import (
    bytes_fault,
    gradients,
    graphs_fault,
    mean_of,
    messages_fault,
    net,
    scaled,
    tensors_fault,
)
from course_lib.exercises.ch07.probes import mean_square
from course_lib.judging import Fault, Judging, Mistake, Params, first, judged, prediction
from course_lib.judging.ranks import UNKIND
from course_lib.judging.tensors import coin_of
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import duration_text

# --- averages of parts


def _parts(
    coin: torch.Generator,
    params: Params,
    counts: Sequence[int],
    shapes: Sequence[tuple[int, ...]] = (),
    dtype: torch.dtype = torch.float32,
) -> tuple[tuple[Any, ...], ...]:
    """Secret gradients of ranks that saw so many examples each, as the variant hands them over."""
    sizes = shapes or ((params["numbers"], 12), (params["numbers"],), ())
    table = []
    for count in counts:
        means = [torch.randint(-4096, 4096, shape, generator=coin).to(dtype) * (count > 0) for shape in sizes]
        table.append((scaled(means, count) if params["given"] == "sum" else means, count))
    return tuple(table)


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def case(name: str, counts: Sequence[int], kind: Any = "generality", part: str = "parts", **more: Any) -> Case:
        shapes, dtype = more.pop("shapes", ()), more.pop("dtype", torch.float32)
        return Case(
            name=name,
            ranks=len(counts),
            per_rank=_parts(coin, params, counts, shapes, dtype),
            kind=kind,
            part=part,
            **{"visible": False, **more},
        )

    return [
        case("four ranks with 3, 1, 4 and 2 examples", (3, 1, 4, 2), "values", "mean", visible=True),
        case("three ranks, other data", (1, 7, 2), "values", "mean"),
        case("parts of one size", (4, 4, 4, 4)),
        case("a rank without an example", (0, 5, 3)),
        case("one rank alone", (6,), part="ranks"),
        case("two ranks", (1, 9), part="ranks"),
        case("seven ranks", (3, 1, 4, 1, 5, 9, 2), part="ranks"),
        case("float64, and one parameter only", (2, 5, 1), part="tensors", shapes=((5, 3, 2),), dtype=torch.float64),
        case("a parameter without elements", (2, 5), part="tensors", shapes=((4,), (0, 3), (2, 2))),
        *(case(f"three ranks, {unkind}", (2, 1, 4), "protocol", "safe", adversary=unkind) for unkind in UNKIND),
    ]


def _average_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = [own[0] for own in case.per_rank or ()]
    counts = [own[1] for own in case.per_rank or ()]
    n, summed = len(counts), params["given"] == "sum"
    means = [scaled(g, 1 / max(c, 1)) if summed else g for g, c in zip(given, counts, strict=True)]
    sums = [g if summed else scaled(g, c) for g, c in zip(given, counts, strict=True)]
    want = mean_of(means, counts)
    total = scaled(mean_of(sums), n)
    slips = [
        Mistake(
            "mean-of-means",
            lambda rank: mean_of(means),
            "this is the plain average of the ranks' averages. An example on a rank with few of them then counts more than one on a "
            "rank with many.",
        ),
        Mistake(
            "own-part",
            lambda rank: given[rank],
            "this is the rank's own gradient, as it was given; the other ranks' are missing.",
        ),
        Mistake(
            "own-share",
            lambda rank: scaled(sums[rank], 1 / max(sum(counts), 1)),
            "this is the rank's own share of the mean. Have the shares been added up, and was it waited for?",
        ),
        Mistake(
            "own-mean",
            lambda rank: means[rank],
            "this is the mean over the rank's own examples; the other ranks' are missing.",
        ),
        Mistake("not-divided", lambda rank: total, "this is the sum over all examples, not their mean."),
        Mistake(
            "sum-of-means",
            lambda rank: scaled(mean_of(means), n),
            "the ranks' averages are added up; where is the division?",
        ),
        Mistake(
            "divided-by-ranks",
            lambda rank: scaled(total, 1 / n),
            "the sum over all examples is divided by the number of ranks. How many examples are there?",
        ),
        Mistake(
            "divided-by-own",
            lambda rank: scaled(total, 1 / max(counts[rank], 1)),
            "the sum over all examples is divided by this rank's own count.",
        ),
        Mistake(
            "divided-twice",
            lambda rank: scaled(want, 1 / n),
            "this is the right gradient divided by the number of ranks once more.",
        ),
        Mistake(
            "public-form",
            lambda rank: mean_of(sums, counts),
            "this solves the public form of the exercise, where ranks hand over means. Here they hand over sums.",
        )
        if summed
        else Mistake(
            "taken-for-sums",
            lambda rank: scaled(mean_of(means), n / max(sum(counts), 1)),
            "the ranks' means are added up as if they were sums.",
        ),
    ]
    fault = tensors_fault(case, outcome.value, want, slips)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in given[0] if each.numel()], 1, 64 + 48 * len(given[0]))
    return judged(case, fault, ("cost", "bytes", wire))


# --- one synchronisation


def _sync_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def case(name: str, ranks: int, steps: Sequence[int], kind: Any, part: str, layers: int = 2, **more: Any) -> Case:
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": layers}
        data = tuple(
            (
                spec,
                [
                    [
                        (torch.randn(3, width, generator=coin), torch.randn(3, width, generator=coin))
                        for _ in range(many)
                    ]
                    for many in steps
                ],
            )
            for _ in range(ranks)
        )
        return Case(name=name, ranks=ranks, per_rank=data, kind=kind, part=part, **{"visible": False, **more})

    return [
        case("three ranks, four micro-batches", 3, (4,), "values", "gradients", visible=True),
        case("two ranks, three micro-batches, other data", 2, (3,), "values", "gradients"),
        case("three steps of two micro-batches", 2, (2, 2, 2), "generality", "steps"),
        case("steps of 3, 1 and 2 micro-batches", 3, (3, 1, 2), "generality", "steps"),
        case("one micro-batch a step", 2, (1, 1), "generality", "steps"),
        case("one rank alone", 1, (3, 2), "generality", "ranks"),
        case("five ranks, one layer", 5, (2,), "generality", "ranks", 1),
    ]


def _sync_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    results, n = [row if type(row) is dict else {} for row in outcome.value], case.ranks or 1
    spec, steps = (case.per_rank or ())[0][0], [len(each) for each in (case.per_rank or ())[0][1]]
    fault: Fault | None = None
    for step, many in enumerate(steps):
        model = net(spec)
        micro = [[gradients(model, mean_square(model(x), y)) for x, y in own[1][step]] for own in case.per_rank or ()]
        own = [mean_of(each) for each in micro]
        want = mean_of(own)
        begun = mean_of([each[0] for each in micro])
        mixed = [mean_of([begun, *each[1:]]) for each in micro]
        slips = [
            Mistake(
                "flag-too-late",
                lambda rank, mixed=mixed: mixed[rank],
                "the first micro-batch was averaged over the ranks, the others were "
                "not: the flag that the *last forward pass* saw was down.",
            ),
            Mistake(
                "never-averaged",
                lambda rank, own=own: own[rank],
                "this is the rank's own mean; nothing was averaged over the ranks. Which forward pass saw the flag up?",
            ),
            Mistake(
                "not-divided",
                lambda rank, want=want, many=many: scaled(want, many),
                "the micro-batches are added up; their mean is asked for.",
            ),
            Mistake(
                "never-averaged",
                lambda rank, own=own, many=many: scaled(own[rank], many),
                "these are the rank's own micro-batches, added up; nothing was averaged over the ranks.",
            ),
            Mistake(
                "flag-too-late",
                lambda rank, mixed=mixed, many=many: scaled(mixed[rank], many),
                "the first micro-batch was averaged over the ranks, the others were not, and no mean was taken.",
            ),
            Mistake(
                "divided-by-ranks",
                lambda rank, want=want: scaled(want, 1 / n),
                "the right one divided by the number of ranks: the replica averages already.",
            ),
            Mistake(
                "last-only",
                lambda rank, micro=micro, many=many: mean_of([scaled(each[-1], 1 / many) for each in micro]),
                "only the last micro-batch is in it.",
            ),
        ]
        seen = [row.get("gradients") for row in results]
        here = [each[step] if type(each) is list and len(each) == len(steps) else None for each in seen]
        fault = tensors_fault(case, here, want, slips if many > 1 or n > 1 else [])
        if fault:
            if step:
                fault = fault[0], f"Step {step + 1}, after a right step {step}. {fault[1]}"
            break
    trained = list(net(spec).parameters())
    wire = _sync_wire(outcome.meter, trained, steps)
    counts = [row.get("counts") for row in results]
    return judged(
        case,
        fault,
        ("cost", "syncs", wire),
        ("cost", "graphs", graphs_fault(counts, [sum(steps)] * n, 3, [sum(steps)] * n)),
    )


def _sync_wire(meter: Meter, trained: Sequence[Tensor], steps: Sequence[int]) -> Fault | None:
    n, each = len(meter["messages_sent"]), 2 * (len(meter["messages_sent"]) - 1) * len(trained)
    if n > 1 and sum(steps) > len(steps) and min(meter["messages_sent"]) >= 0.99 * each * sum(steps):
        return "every-micro-batch", (
            f"Gradients were averaged {sum(steps)} times in {len(steps)} step(s), once a micro-batch: right numbers, "
            f"{sum(steps) / len(steps):.3g} times the communication."
        )
    return first(
        messages_fault(meter, len(trained) * len(steps), "Which forward passes saw the flag up?", 1),
        bytes_fault(meter, [[p] for p in trained], len(steps), 64),
    )


# --- the prediction


def exposed_seconds(params: Params) -> float:
    """Seconds by which the all-reduce is longer than the backward pass beside it."""
    ring = collectives.ring_cost(2 * params["params"], params["gpus"], 0.0, params["bandwidth"]).seconds
    return float(ring - 4 * params["params"] * params["tokens"] / params["rate"])


def _exposed_reveal(params: Params) -> str:
    ring = collectives.ring_cost(2 * params["params"], params["gpus"], 0.0, params["bandwidth"]).seconds
    return (
        f"{duration_text(exposed_seconds(params))}: the ring takes {duration_text(ring)}, the backward pass hides "
        f"{duration_text(ring - exposed_seconds(params))} of it."
    )


CORE = {
    "average-gradients": Judging(
        shares={
            "values:mean": 0.4,
            "cost:bytes": 0.2,
            "protocol:safe": 0.1,
            "generality:parts": 0.15,
            "generality:ranks": 0.1,
            "generality:tensors": 0.05,
        },
        cases=_average_cases,
        verdicts=_average_verdicts,
        why="The gradient is linear: the gradient of a sum is the sum of gradients. So sums over examples may be added up over ranks, and "
        "one division by the number of all examples makes the mean. The average of the ranks' averages is that mean only where all "
        "parts are equally large.",
        pytorch="DistributedDataParallel averages over *ranks*, and expects equal parts; its `join` can divide by the ranks that have data.",
    ),
    "predict-exposed": prediction(
        unit="seconds",
        why="Both times grow with the number of parameters; tokens per GPU and bandwidth decide which is longer. What sticks out is the "
        "difference, and nothing at all once a GPU has enough tokens.",
        pytorch="A profiler's trace shows it as the gap between the last backward kernel and the optimizer's first.",
        reveal=_exposed_reveal,
        truth=exposed_seconds,
    ),
    "one-sync": Judging(
        shares={
            "values:gradients": 0.35,
            "cost:syncs": 0.25,
            "cost:graphs": 0.1,
            "generality:steps": 0.2,
            "generality:ranks": 0.1,
        },
        measured_by_worker=("cost:graphs",),
        cases=_sync_cases,
        verdicts=_sync_verdicts,
        why="The replica prepares for averaging in the forward pass, so the flag has to be right before it, for each micro-batch. The last "
        "one averages all that was accumulated, because the sum of averages is the average of sums.",
        pytorch="`DistributedDataParallel.no_sync()`; its forward pass reads `require_backward_grad_sync` and prepares the reducer.",
    ),
}
