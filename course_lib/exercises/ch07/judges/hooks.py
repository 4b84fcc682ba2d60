"""Judges of chapter 07's two replicas: gradients averaged by hooks, one by one and in buckets, while the backward pass runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.data_parallel import buckets_of
from course_lib.exercises.ch07.judges.ranks import (
    Tensors,
    bytes_fault,
    collective_seconds,
    gradients,
    mean_of,
    messages_fault,
    net,
    overlap_fault,
    scaled,
    tensors_fault,
)
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, judged
from course_lib.judging.ranks import UNKIND
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

RATE = 0.1  # of the probe's descent
WIDE, SECONDS, RANKS = (
    400,
    300e-6,
    3,
)  # of the run whose overlap is timed: a layer's gradients take less than its computing
BIG = WIDE * WIDE * 4
CaseOf = Callable[..., Case]


def _case_of(params: Params, rng: random.Random) -> CaseOf:
    coin = coin_of(rng)

    def case(
        name: str,
        ranks: int,
        kind: Any,
        part: str,
        *,
        more: tuple[Any, ...] = (),
        steps: int = 2,
        visible: bool = False,
        adversary: Any = None,
        **spec: Any,
    ) -> Case:
        full = {"seed": rng.randrange(2**31), "width": params["width"], "layers": 3, **spec}
        data = tuple(
            (full, more, [torch.randn(2, full["width"], generator=coin) for _ in range(steps)]) for _ in range(ranks)
        )
        return Case(name=name, ranks=ranks, per_rank=data, kind=kind, part=part, visible=visible, adversary=adversary)

    return case


def _timed(case: CaseOf, more: tuple[Any, ...] = ()) -> Case:
    return case(
        "three ranks on the clock",
        RANKS,
        "cost",
        "overlap",
        more=more,
        steps=1,
        width=WIDE,
        layers=5,
        biases=False,
        seconds=SECONDS,
    )


def _hook_cases(params: Params, rng: random.Random) -> list[Case]:
    case = _case_of(params, rng)
    return [
        case("four ranks", 4, "values", "gradients", visible=True),
        case("three ranks, other data", 3, "values", "gradients", layers=2),
        _timed(case),
        case("one rank alone", 1, "generality", "ranks"),
        case("five ranks, three steps", 5, "generality", "ranks", steps=3, layers=2),
        case("a frozen layer in the middle", 3, "generality", "models", frozen=(1,)),
        case("first and last layer share their weights", 3, "generality", "models", tied=True),
        case("gradients zeroed, not forgotten, between steps", 2, "generality", "models", zeroed=True, steps=3),
        *(case(f"three ranks, {unkind}", 3, "protocol", "in-flight", adversary=unkind, layers=2) for unkind in UNKIND),
    ]


def _bucket_cases(params: Params, rng: random.Random) -> list[Case]:
    case = _case_of(params, rng)
    layer = 4 * (params["width"] ** 2 + params["width"])
    return [
        case("four ranks, two buckets and a rest", 4, "values", "gradients", more=(2 * layer,), layers=5, visible=True),
        case("three ranks, other data", 3, "values", "gradients", more=(layer + 40,), layers=4),
        _timed(case, (2 * BIG,)),
        case("one rank alone", 1, "generality", "ranks", more=(layer,)),
        case("five ranks, three steps", 5, "generality", "ranks", more=(2 * layer,), steps=3),
        case("one bucket holds all", 3, "generality", "models", more=(100 * layer,)),
        case("every parameter is larger than a bucket", 2, "generality", "models", more=(4,)),
        case("a frozen layer in the middle", 3, "generality", "models", more=(2 * layer,), layers=4, frozen=(1,)),
        case("first and last layer share their weights", 3, "generality", "models", more=(2 * layer,), tied=True),
        case(
            "float32 and float64 side by side",
            2,
            "generality",
            "models",
            more=(4 * layer,),
            layers=4,
            dtypes=("float32", "float64", "float64", "float32"),
        ),
        case(
            "gradients zeroed, not forgotten, between steps", 2, "generality", "models", more=(2 * layer,), zeroed=True
        ),
        case("gradients come in another order on odd ranks", 4, "protocol", "one-order", more=(layer,), branches=True),
        *(
            case(f"three ranks, {unkind}", 3, "protocol", "in-flight", more=(layer,), adversary=unkind, layers=2)
            for unkind in UNKIND
        ),
    ]


def _loss(model: Any, x: Tensor) -> Tensor:
    return model(x).double().square().mean()


def _steps(case: Case) -> tuple[list[list[Tensors]], list[Tensors]]:
    """By step: every rank's own gradients, and their mean, which all descend by."""
    spec = (case.per_rank or ())[0][0]
    models = [net(spec, rank) for rank in range(case.ranks or 1)]
    locals_, means = [], []
    for step in range(len((case.per_rank or ())[0][2])):
        own = [
            gradients(model, _loss(model, given[2][step]))
            for model, given in zip(models, case.per_rank or (), strict=True)
        ]
        mean = mean_of(own)
        locals_.append(own)
        means.append(mean)
        with torch.no_grad():
            for model in models:
                for parameter, grad in zip(model.parameters(), mean, strict=True):
                    if grad is not None:
                        parameter -= RATE * grad
    return locals_, means


def _returned(results: Sequence[Any], steps: int) -> Fault | None:
    for rank, row in enumerate(results):
        if type(row) is dict and "returned" in row:
            return (
                "no-finish",
                f"Rank {rank}: what came back is of type {row['returned']}; return the function `finish`.",
            )
        if type(row) is not dict or type(row.get("gradients")) is not list or len(row["gradients"]) != steps:
            return ("no-gradients", f"Rank {rank} gave {describe(row)}; gradients of {steps} steps are to come.")
    return None


def _gradients_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    locals_, means = _steps(case)
    n = case.ranks or 1
    if fault := _returned(results, len(means)):
        return fault
    for step, (own, want) in enumerate(zip(locals_, means, strict=True)):
        slips = [
            Mistake(
                "own-gradient",
                lambda rank, own=own: own[rank],
                "these are the rank's own gradients; nothing was averaged.",
            ),
            Mistake(
                "sum",
                lambda rank, want=want: scaled(want, n),
                "these are the sums over ranks; their means are asked for.",
            ),
            Mistake(
                "divided-twice",
                lambda rank, want=want: scaled(want, 1 / n),
                "the means are divided by the number of ranks once more.",
            ),
            Mistake(
                "own-divided",
                lambda rank, own=own: scaled(own[rank], 1 / n),
                "this is the rank's own gradient divided by the number of ranks: the others' have not arrived.",
            ),
        ]
        fault = tensors_fault(case, [row["gradients"][step] for row in results], want, slips if n > 1 else [])
        if fault and step and case.adversary is None:
            return (
                "left-over",
                f"Step {step} was right, step {step + 1} is not: is something left over from the step before? {fault[1]}",
            )
        if fault:
            return fault
    return None


def _verdicts(
    case: Case, outcome: Outcome, buckets: Sequence[Sequence[Tensor]], think: str, exactly: bool
) -> list[Verdict]:
    fault, meter, spec = _gradients_fault(case, outcome.value), outcome.meter, (case.per_rank or ())[0][0]
    steps = len((case.per_rank or ())[0][2])
    if case.adversary is not None or case.part == "one-order":
        return judged(case, fault)
    wire = first(
        bytes_fault(meter, buckets, steps, 256), messages_fault(meter, len(buckets) * steps, think, steps, exactly)
    )
    if case.part == "overlap":
        last = collective_seconds(sum(each.nbytes for each in buckets[-1]), case.ranks or 1)
        computing = spec["layers"] * spec["seconds"] * 1.5 * steps
        return judged(case, fault or overlap_fault(meter, computing, last, 1.4), ("cost", "once", wire))
    return judged(case, fault, ("cost", "once", wire))


def _trained(spec: Mapping[str, Any]) -> list[Any]:
    return [each for each in net(spec).parameters() if each.requires_grad]


def _hook_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    trained = _trained((case.per_rank or ())[0][0])
    return _verdicts(
        case,
        outcome,
        [[each] for each in reversed(trained)],
        "One for each trained parameter and step, shared ones once.",
        exactly=False,
    )


def _bucket_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, (nbytes,), _ = (case.per_rank or ())[0]
    buckets = buckets_of(reversed(_trained(spec)), nbytes)
    return _verdicts(
        case,
        outcome,
        buckets,
        f"The parameters fit into {len(buckets)} bucket(s) a step, packed from the last to the first.",
        exactly=True,
    )


HOOKS = {
    "ddp-hooks": Judging(
        shares={
            "values:gradients": 0.25,
            "cost:overlap": 0.25,
            "cost:once": 0.15,
            "protocol:in-flight": 0.1,
            "generality:ranks": 0.1,
            "generality:models": 0.15,
        },
        measured_by_worker=("cost:overlap",),
        cases=_hook_cases,
        verdicts=_hook_verdicts,
        why="A gradient that is complete will not change any more in this backward pass, so its all-reduce may leave at once and travel "
        "while the layers before are still computing. Only the first layer's, which is complete last, has nothing left to hide behind.",
        pytorch="`DistributedDataParallel` does this in its reducer, in buckets; `register_post_accumulate_grad_hook` is the public hook.",
    ),
    "ddp-buckets": Judging(
        shares={
            "values:gradients": 0.2,
            "cost:overlap": 0.25,
            "cost:once": 0.15,
            "protocol:in-flight": 0.05,
            "protocol:one-order": 0.1,
            "generality:ranks": 0.1,
            "generality:models": 0.15,
        },
        measured_by_worker=("cost:overlap",),
        cases=_bucket_cases,
        verdicts=_bucket_verdicts,
        why="A bucket pays one latency for many parameters, and can leave when its last gradient is there; so neighbours in the backward "
        "pass belong together. Collectives are matched by their order, not by their content: a rank that sends what is ready first "
        "has its numbers added to other parameters' numbers.",
        pytorch="`DistributedDataParallel(bucket_cap_mb=25)`; its first bucket is small, so that communication begins early.",
    ),
}
