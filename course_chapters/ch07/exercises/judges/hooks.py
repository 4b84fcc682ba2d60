"""Judges of chapter 07's two replicas: gradients averaged by hooks, one by one and in buckets, while the backward pass
runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import torch
from torch import Tensor

from course_chapters.ch07.exercises.judges import ranks
from course_chapters.ch07.exercises.models import Net
from course_grader.judging import Case, Fault, Outcome, Params, Random, Verdict, Worked, describe, first, hidden, judged
from course_grader.judging.gradients import Tensors
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of
from course_grader.judging.worked import once_a_case
from course_lib.cluster import Topology
from course_lib.cluster.collectives import ring_cost

# Of the timed run, in which reducing a layer's gradients takes less time than computing it:
WIDE, SECONDS, RANKS = 352, 300e-6, 3

STEPS = 8  # of the run after which handles are counted
MIXED = ("float32", "float64", "float64", "float32")
MANY = f"two ranks, {STEPS} steps"


def data_of(params: Params, rng: Random) -> Callable[..., PerRank]:
    """A function that draws the ranks' arguments: the model's description, the answer's other arguments, a batch per
    step."""
    coin = coin_of(rng)

    def data(ranks: int, *more: object, steps: int = 2, **spec: object) -> PerRank:
        full = {"seed": rng.randrange(2**31), "width": params["width"], "layers": 3, **spec}
        shape = 2, full["width"]
        return tuple((full, more, [torch.randn(shape, generator=coin) for _ in range(steps)]) for _ in range(ranks))

    return data


def timed(data: Callable[..., PerRank], *more: object, biases: bool) -> Case:
    per_rank = data(RANKS, *more, steps=1, width=WIDE, layers=5, biases=biases, seconds=SECONDS)
    return hidden("three ranks on the clock", "cost:overlap", per_rank=per_rank)


class Result(TypedDict):
    """What a rank brings back: the function's result, and the gradients after each step."""

    returned: object
    gradients: list[Tensors]


def _gradients_fault(right: Worked, case: Case, results: Sequence[Result]) -> Fault | None:
    for rank, row in enumerate(results):
        if type(row["returned"]) is not str or row["returned"]:
            kind = describe(row["returned"]).removeprefix("str ")
            return "no-finish", f"Rank {rank} returned a value of type {kind}; return the function `finish`."
    later = "left-over", "Step {} is right, step {} is not: is something left over?"
    return ranks.steps_fault(case, [row["gradients"] for row in results], right.value(case)[0]["gradients"], later)


def alone_seconds(nbytes: int, ranks: int) -> float:
    """Seconds of one all-reduce on the teaching link, with nothing else on it."""
    link = Topology().levels[0]
    return ring_cost(nbytes, ranks, link.latency, link.bandwidth).seconds


def verdicts_of(
    right: Worked, case: Case, outcome: Outcome, buckets: Sequence[Sequence[Tensor]], hint: str, exactly: bool
) -> list[Verdict]:
    fault, meter, spec = _gradients_fault(right, case, outcome.value), outcome.meter, (case.per_rank or ())[0][0]
    steps = len((case.per_rank or ())[0][2])
    if case.adversary is not None or case.part == "one-order":
        return judged(case, fault)
    if case.part == "steps":
        return judged(case, fault or _handles_fault(outcome.value, len(buckets)))
    messages = ranks.messages_fault(meter, len(buckets) * steps, hint, steps, exactly)
    wire = first(ranks.bytes_fault(meter, buckets, steps, 256), messages)
    if case.part == "overlap":
        last = alone_seconds(sum(each.nbytes for each in buckets[-1]), case.ranks or 1)
        computing = spec["layers"] * spec["seconds"] * 1.5 * steps
        return judged(case, fault or ranks.overlap_fault(meter, computing, last, 1.4), ("cost", "once", wire))
    return judged(case, fault, ("cost", "once", wire))


def _handles_fault(results: Sequence[Mapping[str, object]], in_a_step: int) -> Fault | None:
    """Handles of earlier steps that are still held; those of the last four steps of a rank may be."""
    held = max((each for row in results if isinstance(each := row.get("handles"), int)), default=0)
    if held <= 4 * in_a_step:
        return None
    return "handles-kept", f"after {STEPS} steps, {held} handles are held. Forget them when you have waited."


@once_a_case
def trained_model(case: Case) -> list[torch.nn.Parameter]:
    return [each for each in Net(None, (case.per_rank or ())[0][0]).parameters() if each.requires_grad]
