"""Judges of chapter 07's two replicas: gradients averaged by hooks, one by one and in buckets, while the backward pass runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.data_parallel import buckets_of
from course_lib.exercises.ch07.judges.ranks import (
    bytes_fault,
    collective_seconds,
    gradients,
    messages_fault,
    net,
    of_step,
    overlap_fault,
)
from course_lib.judging import Fault, Judging, Mistake, Params, describe, first, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import Tensors, gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

RATE = 0.1  # learning rate of the probe
# Of the timed run, in which reducing a layer's gradients takes less time than computing it:
WIDE, SECONDS, RANKS = 400, 300e-6, 3
BIG = WIDE * WIDE * 4
STEPS = 16  # of the run after which handles are counted
MIXED = ("float32", "float64", "float64", "float32")
_MANY = f"two ranks, {STEPS} steps"


def _data_of(params: Params, rng: random.Random) -> Callable[..., PerRank]:
    """A function that draws the ranks' arguments: the model's description, the answer's other arguments, a batch per step."""
    coin = coin_of(rng)

    def data(ranks: int, *more: Any, steps: int = 2, **spec: Any) -> PerRank:
        full = {"seed": rng.randrange(2**31), "width": params["width"], "layers": 3, **spec}
        shape = 2, full["width"]
        return tuple((full, more, [torch.randn(shape, generator=coin) for _ in range(steps)]) for _ in range(ranks))

    return data


def _timed(data: Callable[..., PerRank], *more: Any) -> Case:
    per_rank = data(RANKS, *more, steps=1, width=WIDE, layers=5, biases=False, seconds=SECONDS)
    return hidden("three ranks on the clock", "cost:overlap", per_rank=per_rank)


def _hook_cases(params: Params, rng: random.Random) -> list[Case]:
    data, models = _data_of(params, rng), "generality:models"
    cases = [
        shown("four ranks", "values:gradients", per_rank=data(4)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3, layers=2)),
        _timed(data),
        hidden("one rank alone", "generality:ranks", per_rank=data(1)),
        hidden("nine ranks, three steps", "generality:ranks", per_rank=data(9, steps=3, layers=2)),
        hidden("frozen layers and two dtypes", models, per_rank=data(3, layers=4, frozen=(0, 2), dtypes=MIXED)),
        hidden("first and last layer share their weights", models, per_rank=data(3, tied=True, frozen=(1,))),
        hidden("zeroed, not set to None", models, per_rank=data(2, zeroed=True, steps=3, layers=4, frozen=(1,))),
        hidden(_MANY, "generality:steps", per_rank=data(2, steps=STEPS, layers=2, counted=True)),
    ]
    return cases + under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, layers=2))


def _bucket_cases(params: Params, rng: random.Random) -> list[Case]:
    data, models = _data_of(params, rng), "generality:models"
    layer = 4 * (params["width"] ** 2 + params["width"])
    cases = [
        shown("four ranks, two buckets and a smaller one", "values:gradients", per_rank=data(4, 2 * layer, layers=5)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3, layer + 40, layers=4)),
        _timed(data, 2 * BIG),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, layer)),
        hidden("nine ranks, three steps", "generality:ranks", per_rank=data(9, layer, steps=3, layers=2)),
        hidden("one bucket holds everything", models, per_rank=data(3, 100 * layer)),
        hidden("every parameter is larger than a bucket", models, per_rank=data(2, 4)),
        hidden(
            "every second layer is frozen", models, per_rank=data(3, 2 * layer, layers=7, frozen=(1, 3, 5), steps=1)
        ),
        hidden("first and last layer share their weights", models, per_rank=data(3, 2 * layer, tied=True, frozen=(1,))),
        hidden("float32 and float64 side by side", models, per_rank=data(2, 3 * layer, layers=4, dtypes=MIXED)),
        hidden("zeroed gradients, and weights larger than a bucket", models, per_rank=data(2, 100, zeroed=True)),
        hidden(_MANY, "generality:steps", per_rank=data(2, layer, steps=STEPS, layers=2, counted=True)),
        hidden("gradients in another order on odd ranks", "protocol:one-order", per_rank=data(4, layer, branches=True)),
    ]
    return cases + under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, layer, layers=2))


def _loss(model: Any, x: Tensor) -> Tensor:
    return model(x).double().square().mean()


def _steps(case: Case) -> tuple[list[list[Tensors]], list[Tensors]]:
    """For each step: every rank's own gradients, and their mean, which all ranks apply."""
    spec = (case.per_rank or ())[0][0]
    models = [net(spec, rank) for rank in range(case.ranks or 1)]
    locals_, means = [], []
    for step in range(len((case.per_rank or ())[0][2])):
        batches = [given[2][step] for given in case.per_rank or ()]
        own = [gradients(model, _loss(model, x)) for model, x in zip(models, batches, strict=True)]
        mean = mean_of(own)
        locals_.append(own)
        means.append(mean)
        with torch.no_grad():
            for model in models:
                for parameter, grad in zip(model.parameters(), mean, strict=True):
                    if grad is not None:
                        parameter -= RATE * grad
    return locals_, means


def _gradients_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    locals_, means = _steps(case)
    n = case.ranks or 1
    for rank, row in enumerate(results):
        if type(row["returned"]) is not str or row["returned"]:
            kind = describe(row["returned"]).removeprefix("str ")
            return "no-finish", f"Rank {rank} returned a value of type {kind}; return the function `finish`."
    for step, (own, want) in enumerate(zip(locals_, means, strict=True)):
        mistakes = [
            Mistake("own-gradient", lambda rank, own=own: own[rank], "the rank's own gradients; nothing was averaged."),
            Mistake(
                "sum",
                lambda rank, want=want: scaled(want, n),
                "the sums over the ranks, not the means: nothing divided them, or a division in flight was overwritten by the sum.",
            ),
            Mistake("divided-twice", lambda rank, want=want: scaled(want, 1 / n), "means, divided once more."),
            Mistake(
                "own-divided",
                lambda rank, own=own: scaled(own[rank], 1 / n),
                "the rank's own gradient divided by the number of ranks; the other ranks' gradients are missing.",
            ),
        ]
        fault = gradients_fault(case, of_step(results, step), want, mistakes if n > 1 else [])
        if fault and step and case.adversary is None:
            return "left-over", f"Step {step} is right, step {step + 1} is not: is something left over? {fault[1]}"
        if fault:
            return fault
    return None


def _verdicts(
    case: Case, outcome: Outcome, buckets: Sequence[Sequence[Tensor]], hint: str, exactly: bool
) -> list[Verdict]:
    fault, meter, spec = _gradients_fault(case, outcome.value), outcome.meter, (case.per_rank or ())[0][0]
    steps = len((case.per_rank or ())[0][2])
    if case.adversary is not None or case.part == "one-order":
        return judged(case, fault)
    if case.part == "steps":
        return judged(case, fault or _handles_fault(outcome.value, len(buckets) * (case.ranks or 1)))
    messages = messages_fault(meter, len(buckets) * steps, hint, steps, exactly)
    wire = first(bytes_fault(meter, buckets, steps, 256), messages)
    if case.part == "overlap":
        last = collective_seconds(sum(each.nbytes for each in buckets[-1]), case.ranks or 1)
        computing = spec["layers"] * spec["seconds"] * 1.5 * steps
        return judged(case, fault or overlap_fault(meter, computing, last, 1.4), ("cost", "once", wire))
    return judged(case, fault, ("cost", "once", wire))


def _handles_fault(results: Sequence[Mapping[str, Any]], in_a_step: int) -> Fault | None:
    """Handles of earlier steps that are still held; those of the last two steps of all ranks may be."""
    held = max((row["handles"] for row in results if type(row.get("handles")) is int), default=0)
    if held <= 4 * in_a_step:
        return None
    return "handles-kept", f"after {STEPS} steps, {held} handles are held. Forget them when you have waited."


def _trained(spec: Mapping[str, Any]) -> list[Any]:
    return [each for each in net(spec).parameters() if each.requires_grad]


def _hook_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    trained = _trained((case.per_rank or ())[0][0])
    hint = "One per trained parameter and step; a shared parameter counts once."
    return _verdicts(case, outcome, [[parameter] for parameter in reversed(trained)], hint, exactly=False)


def _bucket_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    spec, (nbytes,), _ = (case.per_rank or ())[0]
    buckets = buckets_of(reversed(_trained(spec)), nbytes)
    hint = f"Packed from the last parameter to the first, {len(buckets)} bucket(s) per step are enough."
    return _verdicts(case, outcome, buckets, hint, exactly=True)


HOOKS = {
    "ddp-hooks": Judging(
        point=("cost:overlap",),
        shares="values:gradients 0.25, cost:overlap 0.25, cost:once 0.15, protocol:in-flight 0.1, "
        "generality:ranks 0.05, generality:steps 0.05, generality:models 0.15",
        measured_by_worker=("cost:overlap",),
        cases=_hook_cases,
        verdicts=_hook_verdicts,
        why="A complete gradient no longer changes in this backward pass, so its all-reduce can start at once and run while earlier layers "
        "are still computing. Only the first layer's gradient, which is complete last, has nothing left to hide it.",
        pytorch="`DistributedDataParallel` does this in its reducer, in buckets; `register_post_accumulate_grad_hook` is the public hook.",
    ),
    "ddp-buckets": Judging(
        point=("cost:overlap",),
        shares="values:gradients 0.2, cost:overlap 0.25, cost:once 0.15, protocol:in-flight 0.05, "
        "protocol:one-order 0.1, generality:ranks 0.05, generality:steps 0.05, generality:models 0.15",
        measured_by_worker=("cost:overlap",),
        cases=_bucket_cases,
        verdicts=_bucket_verdicts,
        why="A bucket pays one latency for many parameters and leaves when its last gradient is complete, so gradients that complete one "
        "after another belong together. Collectives are matched by order, not by content: if a rank sends whatever is ready first, "
        "its numbers are added to other parameters' numbers.",
        pytorch="`DistributedDataParallel(bucket_cap_mb=25)`; its first bucket is small, so that communication starts early.",
    ),
}
