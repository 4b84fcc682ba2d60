"""Judges of chapter 07's core: averages of unequal parts, one synchronization per step, the exposed time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib import collectives
from course_lib.exercises.ch07 import probes
from course_lib.exercises.ch07.judges.ranks import bytes_fault, gradients, graphs_fault, messages_fault, net, of_step
from course_lib.judging import Fault, Judging, Mistake, Params, first, judged, prediction
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import Tensors, gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict
from course_lib.units import duration_text

# --- averages of parts


def _average_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, wide = coin_of(rng), params["numbers"]

    def data(*counts: int, shapes: Any = ((wide, 12), (wide,), ()), dtype: torch.dtype = torch.float32) -> PerRank:
        """Secret gradients of ranks that saw so many examples each, as the variant hands them over."""
        rows = []
        for count in counts:
            means = [torch.randint(-4096, 4096, shape, generator=coin).to(dtype) * (count > 0) for shape in shapes]
            rows.append((scaled(means, count) if params["given"] == "sum" else means, count))
        return tuple(rows)

    one, empty = ((5, 3, 2),), ((4,), (0, 3), (2, 2))
    cases = [shown("four ranks with 3, 1, 4 and 2 examples", "values:mean", per_rank=data(3, 1, 4, 2))]
    cases += [hidden("three ranks, other data", "values:mean", per_rank=data(1, 7, 2))]
    cases += [hidden("parts of one size", "generality:parts", per_rank=data(4, 4, 4, 4))]
    cases += [hidden("a rank without an example", "generality:parts", per_rank=data(0, 5, 3))]
    cases += [hidden("one rank alone", "generality:ranks", per_rank=data(6))]
    cases += [hidden("two ranks", "generality:ranks", per_rank=data(1, 9))]
    ten = data(3, 0, 4, 70_001, 5, 9, 2, 0, 60_000, 0)  # a count that half precision does not hold
    cases += [hidden("ten ranks, the last without an example", "generality:ranks", per_rank=ten)]
    double = data(1, 7, 9, shapes=one, dtype=torch.float64)
    cases += [hidden("float64, and a single parameter", "generality:tensors", per_rank=double)]
    cases += [hidden("a parameter without elements", "generality:tensors", per_rank=data(2, 5, shapes=empty))]
    return cases + under(UNKIND, "three ranks", "protocol:safe", lambda: data(2, 1, 4))


def _average_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    given = [own[0] for own in case.per_rank or ()]
    counts = [own[1] for own in case.per_rank or ()]
    n, summed = len(counts), params["given"] == "sum"
    means = [scaled(g, 1 / max(c, 1)) if summed else g for g, c in zip(given, counts, strict=True)]
    sums = [g if summed else scaled(g, c) for g, c in zip(given, counts, strict=True)]
    want = mean_of(means, counts)
    total = scaled(mean_of(sums), n)
    all_, over = max(sum(counts), 1), "divided by the number of ranks"
    mistakes = [
        Mistake(
            "mean-of-means",
            lambda rank: mean_of(means),
            "the plain average of the ranks' averages, in which a few examples weigh as much as many.",
        ),
        Mistake("own-part", lambda rank: given[rank], "the rank's own gradient; the other ranks' are missing."),
        Mistake("own-share", lambda rank: scaled(sums[rank], 1 / all_), "the rank's own share; was it summed?"),
        Mistake("own-mean", lambda rank: means[rank], "the mean over the rank's own examples only."),
        Mistake("not-divided", lambda rank: total, "the sum over all examples, not their mean."),
        Mistake("sum-of-means", lambda rank: scaled(mean_of(means), n), "the ranks' averages added up, not divided."),
        Mistake("divided-by-ranks", lambda rank: scaled(total, 1 / n), f"the sum over all examples, {over}."),
        Mistake(
            "divided-by-own",
            lambda rank: scaled(total, 1 / (counts[rank] or 1)),
            "the sum over all examples, divided by this rank's own count.",
        ),
        Mistake("divided-twice", lambda rank: scaled(want, 1 / n), f"the right gradient, {over} a second time."),
        Mistake("public-form", lambda rank: mean_of(sums, counts), "the public form, in which ranks give means.")
        if summed
        else Mistake("taken-for-sums", lambda rank: scaled(mean_of(means), n / all_), "means added up like sums."),
    ]
    fault = gradients_fault(case, outcome.value, want, mistakes)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in given[0] if each.numel()], 1, 64 + 48 * len(given[0]))
    return judged(case, fault, ("cost", "bytes", wire))


# --- one synchronization


def _sync_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def data(ranks: int, *steps: int, layers: int = 2, rows: int = 3, loss: str = "mean_square") -> PerRank:
        """For each rank the description of its model and, for each step, so many micro-batches."""
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": layers, "loss": loss}

        def pair() -> tuple[Tensor, Tensor]:
            return torch.randn(rows, width, generator=coin), torch.randn(rows, width, generator=coin)

        return tuple((spec, [[pair() for _ in range(count)] for count in steps]) for _ in range(ranks))

    other = data(2, 6, rows=5, loss="mean_distance")
    return [
        shown("three ranks, four micro-batches", "values:gradients", per_rank=data(3, 4)),
        hidden("two ranks, six micro-batches, another loss", "values:gradients", per_rank=other),
        hidden("three steps of two micro-batches", "generality:steps", per_rank=data(2, 2, 2, 2)),
        hidden("steps of 3, 1 and 2 micro-batches", "generality:steps", per_rank=data(3, 3, 1, 2)),
        hidden("one micro-batch a step", "generality:steps", per_rank=data(2, 1, 1)),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, 3, 2)),
        hidden("five ranks, one layer", "generality:ranks", per_rank=data(5, 2, layers=1)),
    ]


def _sync_mistakes(micro: Sequence[Sequence[Tensors]], want: Tensors) -> list[Mistake]:
    """Each rank's gradients if the flag has the wrong value in a forward pass; `micro` is by rank and micro-batch."""
    n, count = len(micro), len(micro[0])
    own = [mean_of(batches) for batches in micro]
    begun = mean_of([batches[0] for batches in micro])
    mixed = [mean_of([begun, *batches[1:]]) for batches in micro]
    late = "the first micro-batch was averaged over the ranks, but the others were not"
    return [
        Mistake("flag-too-late", lambda rank: mixed[rank], f"{late}: the flag was False in the *last forward pass*."),
        Mistake("never-averaged", lambda rank: own[rank], "the rank's own mean; no average over the ranks was taken."),
        Mistake("not-divided", lambda rank: scaled(want, count), "the sum over the micro-batches; return their mean."),
        Mistake("never-averaged", lambda rank: scaled(own[rank], count), "a sum over the rank's own micro-batches."),
        Mistake(
            "flag-too-late",
            lambda rank: scaled(mixed[rank], count),
            f"{late}, and the sum was not divided by the number of micro-batches.",
        ),
        Mistake("divided-by-ranks", lambda rank: scaled(want, 1 / n), "divided by ranks; the replica averages."),
        Mistake(
            "last-only",
            lambda rank: mean_of([scaled(batches[-1], 1 / count) for batches in micro]),
            "this contains only the last micro-batch.",
        ),
    ]


def _sync_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    results, n = outcome.value, case.ranks or 1
    spec, given = (case.per_rank or ())[0]
    steps, rows, loss = [len(batches) for batches in given], len(given[0][0][0]), getattr(probes, spec["loss"])
    fault: Fault | None = None
    for step, count in enumerate(steps):
        model = net(spec)
        micro = [[gradients(model, loss(model(x), y)) for x, y in own[1][step]] for own in case.per_rank or ()]
        want = mean_of([mean_of(batches) for batches in micro])
        fault = gradients_fault(
            case, of_step(results, step), want, _sync_mistakes(micro, want) if count > 1 or n > 1 else []
        )
        if fault and step:
            fault = fault[0], f"Step {step} is right but step {step + 1} is wrong. {fault[1]}"
        if fault:
            break
    wire = _sync_wire(outcome.meter, list(net(spec).parameters()), steps)
    graphs = graphs_fault([row["counts"] for row in results], [sum(steps)] * n, rows, [sum(steps)] * n)
    return judged(case, fault, ("cost", "syncs", wire), ("cost", "graphs", graphs))


def _sync_wire(meter: Meter, trained: Sequence[Tensor], steps: Sequence[int]) -> Fault | None:
    n, each = len(meter["messages_sent"]), 2 * (len(meter["messages_sent"]) - 1) * len(trained)
    if n > 1 and sum(steps) > len(steps) and min(meter["messages_sent"]) >= 0.99 * each * sum(steps):
        times = sum(steps) / len(steps)
        return "every-micro-batch", f"Every micro-batch was averaged: {times:.3g} times the communication."
    return first(
        messages_fault(meter, len(trained) * len(steps), "In which forward passes was the flag True?", 1),
        bytes_fault(meter, [[p] for p in trained], len(steps), 64),
    )


# --- the prediction


def exposed_seconds(params: Params) -> float:
    """Seconds by which the all-reduce outlasts the backward pass."""
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
        point=("cost:bytes",),
        shares="values:mean 0.4, cost:bytes 0.2, protocol:safe 0.1, generality:parts 0.15, generality:ranks 0.1, "
        "generality:tensors 0.05",
        cases=_average_cases,
        verdicts=_average_verdicts,
        why="The gradient is linear: the gradient of a sum is the sum of gradients. So you can add up sums over examples across ranks and "
        "divide once by the number of all examples. The average of the ranks' averages equals that mean only if all parts are equally "
        "large.",
        pytorch="DistributedDataParallel averages over *ranks*, and expects equal parts; its `join` can divide by the ranks that have data.",
    ),
    "predict-exposed": prediction(
        unit="seconds",
        why="Both times grow with the number of parameters, so tokens per GPU and bandwidth decide which is longer. The exposed time is the "
        "difference, and it is zero once a GPU has enough tokens.",
        pytorch="A profiler's trace shows it as the gap between the last backward kernel and the optimizer's first kernel.",
        reveal=_exposed_reveal,
        truth=exposed_seconds,
    ),
    "one-sync": Judging(
        point=("cost:syncs", "cost:graphs"),
        shares="values:gradients 0.35, cost:syncs 0.25, cost:graphs 0.1, generality:steps 0.2, generality:ranks 0.1",
        measured_by_worker=("cost:graphs",),
        cases=_sync_cases,
        verdicts=_sync_verdicts,
        why="The replica prepares for averaging in the forward pass, so the flag must have its value before that, for each micro-batch. The "
        "last one averages everything accumulated, because the average of sums is the sum of averages.",
        pytorch="`DistributedDataParallel.no_sync()`; its forward pass reads `require_backward_grad_sync` and prepares the reducer.",
    ),
}
