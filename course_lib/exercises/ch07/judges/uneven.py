"""Judge of chapter 07's uneven inputs: training continues until no rank has data left."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch07.judges.ranks import bytes_fault, gradients, net
from course_lib.exercises.ch07.probes import mean_square
from course_lib.judging import Fault, Judging, Mistake, Params, describe, judged, near
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.gradients import gradients_fault, mean_of, scaled
from course_lib.judging.ranks import UNKIND, PerRank
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

TRAIN_RATES = (0.1, 0.2, 0.3)


def _uneven_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def data(*table: Sequence[int]) -> PerRank:
        """For each rank the model, the learning rate, and batches with these numbers of rows."""
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": 2}

        def pair(rows: int) -> tuple[Tensor, Tensor]:
            return torch.randn(rows, width, generator=coin), torch.randn(rows, width, generator=coin)

        rate = rng.choice(TRAIN_RATES)
        return tuple((spec, rate, [pair(rows) for rows in own]) for own in table)

    nine = (2,), (), (1, 1), (3, 2), (), (1,), (1,), (), (1,) * 6
    cases = [
        shown("three ranks with 3, 1 and 2 batches", "values:weights", per_rank=data((4, 4, 4), (4,), (4, 4))),
        hidden("two ranks, batches of several sizes", "values:weights", per_rank=data((1, 5), (6, 2, 3))),
        hidden("equally many batches on all ranks", "generality:even", per_rank=data((2, 3), (4, 1), (3, 3))),
        hidden("a rank without a batch", "generality:empty", per_rank=data((3, 2), (), (4,))),
        hidden("no rank has a batch", "generality:empty", per_rank=data((), ())),
        hidden("two ranks, batches larger than the model", "cost:bytes", per_rank=data((60, 75), (90,))),
        hidden("one rank alone", "generality:ranks", per_rank=data((2, 3))),
        hidden("nine ranks, one with six batches", "generality:ranks", per_rank=data(*nine)),
    ]
    return cases + under(UNKIND, "two ranks", "protocol:safe", lambda: data((2, 1), (3,)))


def _trained(case: Case, weigh: str) -> list[list[Tensor]]:
    """Weights of every rank after training with ranks weighted by `weigh`; "examples" is right."""
    given = case.per_rank or ()
    spec, rate = given[0][0], given[0][1]
    lengths = [len(own[2]) for own in given]
    models = [net(spec, rank) for rank in range(len(given))]
    for step in range(min(lengths) if weigh == "shortest" else max(lengths, default=0)):
        own = []
        for model, (_, _, batches) in zip(models, given, strict=True):
            pair = batches[step] if step < len(batches) else batches[-1] if weigh == "repeat" and batches else None
            zero = [torch.zeros_like(each) for each in model.parameters()]
            own.append((gradients(model, mean_square(model(pair[0]), pair[1])), len(pair[0])) if pair else (zero, 0))
        active = [float(count > 0) for _, count in own]
        counts = [float(count) for _, count in own]
        by = {"ranks": [1.0] * len(own), "active": active}.get(weigh, counts)
        mean = mean_of([g for g, _ in own], by)
        for rank, model in enumerate(models):
            descent = own[rank][0] if weigh == "alone" else scaled(mean, len(given)) if weigh == "sum" else mean
            with torch.no_grad():
                for parameter, grad in zip(model.parameters(), descent, strict=True):
                    parameter -= rate * grad
    return [[each.detach() for each in model.parameters()] for model in models]


_WEIGHTS = (  # (name, how ranks were weighted, message)
    ("idle-counted", "ranks", "this is a mean over ranks; an idle rank lowers it and a small batch counts in full."),
    ("mean-of-means", "active", "the mean was taken over the ranks with data, but their batches differ in size."),
    ("data-dropped", "shortest", "training stopped with the first rank that ran out; the others' data was dropped."),
    ("read-again", "repeat", "a rank without data reused its last batch; every batch is used once."),
    ("own-model", "alone", "this rank trained on its own data alone."),
    ("sum", "sum", "the gradient is the right one times the number of ranks."),
)


def _steps_fault(told: Sequence[Any], lengths: Sequence[int], steps: int) -> Fault | None:
    for rank, (got, own) in enumerate(zip(told, lengths, strict=True)):
        if isinstance(got, Tensor) and got.numel() == 1 and not got.dtype.is_complex:
            got = got.item()
        if near(got, steps, 1e-9):
            continue
        if near(got, own, 1e-9):
            return "own-steps", f"Rank {rank} returned {own}, its own number of batches; the run took {steps} steps."
        return "other-steps", f"Rank {rank} returned {describe(got)}; the run took {steps} steps."
    return None


def _uneven_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows = outcome.value
    want = _trained(case, "examples")[0]
    wrong = {name: _trained(case, how) for name, how, _ in _WEIGHTS}
    mistakes = [Mistake(name, lambda rank, name=name: wrong[name][rank], told) for name, _, told in _WEIGHTS]
    fault = gradients_fault(case, [row["weights"] for row in rows], want, mistakes, "weight")
    lengths = [len(own[2]) for own in case.per_rank or ()]
    steps = max(lengths)
    fault = fault or _steps_fault([row["steps"] for row in rows], lengths, steps)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in want], steps, 128 * (steps + 1), ending=1) if steps else None
    return judged(case, fault, ("cost", "bytes", wire))


UNEVEN = {
    "uneven-inputs": Judging(
        shares="values:weights 0.4, cost:bytes 0.15, protocol:safe 0.1, generality:even 0.05, generality:empty 0.15, "
        "generality:ranks 0.15",
        cases=_uneven_cases,
        verdicts=_uneven_verdicts,
        why="Before each step, all ranks agree on its total number of examples. A rank without examples still takes part in the "
        "all-reduces, with zeros that change no sum, and the count leaves it out of the mean.",
        pytorch="`with model.join():` answers the collectives for ranks without data; `divide_by_initial_world_size=False` leaves those "
        "ranks out of the mean.",
    )
}
