"""Judges of chapter 07's two replicas: gradients averaged by hooks, one by one and in buckets, while the backward pass
runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_chapters.ch07.exercises.judges.ranks import (
    bytes_fault,
    collective_seconds,
    descend,
    gradients,
    messages_fault,
    net,
    overlap_fault,
    steps_fault,
)
from course_grader.judging import Case, Fault, Outcome, Params, Random, Verdict, describe, first, hidden, judged
from course_grader.judging.gradients import Tensors
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of
from course_grader.judging.worked import once_a_case

RATE = 0.1  # learning rate of the probe
# Of the timed run, in which reducing a layer's gradients takes less time than computing it:
WIDE, SECONDS, RANKS = 400, 300e-6, 3

STEPS = 16  # of the run after which handles are counted
MIXED = ("float32", "float64", "float64", "float32")
MANY = f"two ranks, {STEPS} steps"


def data_of(params: Params, rng: Random) -> Callable[..., PerRank]:
    """A function that draws the ranks' arguments: the model's description, the answer's other arguments, a batch per
    step."""
    coin = coin_of(rng)

    def data(ranks: int, *more: Any, steps: int = 2, **spec: Any) -> PerRank:
        full = {"seed": rng.randrange(2**31), "width": params["width"], "layers": 3, **spec}
        shape = 2, full["width"]
        return tuple((full, more, [torch.randn(shape, generator=coin) for _ in range(steps)]) for _ in range(ranks))

    return data


def timed(data: Callable[..., PerRank], *more: Any) -> Case:
    per_rank = data(RANKS, *more, steps=1, width=WIDE, layers=5, biases=False, seconds=SECONDS)
    return hidden("three ranks on the clock", "cost:overlap", per_rank=per_rank)


@once_a_case
def _steps(case: Case) -> list[Tensors]:
    """The gradients of each step as one process with everybody's examples has them; then it descends."""
    model, wants = net((case.per_rank or ())[0][0]), []
    for step in range(len((case.per_rank or ())[0][2])):
        losses = [model(batches[step]).double().square().mean() for _, _, batches in case.per_rank or ()]
        wants.append(gradients(model, torch.stack(losses).mean()))
        descend(model, wants[-1], RATE)
    return wants


def _gradients_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    for rank, row in enumerate(results):
        if type(row["returned"]) is not str or row["returned"]:
            kind = describe(row["returned"]).removeprefix("str ")
            return "no-finish", f"Rank {rank} returned a value of type {kind}; return the function `finish`."
    later = "left-over", "Step {} is right, step {} is not: is something left over?"
    return steps_fault(case, results, _steps(case), later)


def verdicts_of(
    case: Case, outcome: Outcome, buckets: Sequence[Sequence[Tensor]], hint: str, exactly: bool
) -> list[Verdict]:
    fault, meter, spec = _gradients_fault(case, outcome.value), outcome.meter, (case.per_rank or ())[0][0]
    steps = len((case.per_rank or ())[0][2])
    if case.adversary is not None or case.part == "one-order":
        return judged(case, fault)
    if case.part == "steps":
        return judged(case, fault or _handles_fault(outcome.value, len(buckets)))
    messages = messages_fault(meter, len(buckets) * steps, hint, steps, exactly)
    wire = first(bytes_fault(meter, buckets, steps, 256), messages)
    if case.part == "overlap":
        last = collective_seconds(sum(each.nbytes for each in buckets[-1]), case.ranks or 1)
        computing = spec["layers"] * spec["seconds"] * 1.5 * steps
        return judged(case, fault or overlap_fault(meter, computing, last, 1.4), ("cost", "once", wire))
    return judged(case, fault, ("cost", "once", wire))


def _handles_fault(results: Sequence[Mapping[str, Any]], in_a_step: int) -> Fault | None:
    """Handles of earlier steps that are still held; those of the last four steps of a rank may be."""
    held = max((row["handles"] for row in results if type(row.get("handles")) is int), default=0)
    if held <= 4 * in_a_step:
        return None
    return "handles-kept", f"after {STEPS} steps, {held} handles are held. Forget them when you have waited."


@once_a_case
def trained_model(case: Case) -> list[Any]:
    return [each for each in net((case.per_rank or ())[0][0]).parameters() if each.requires_grad]
