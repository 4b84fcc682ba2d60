"""Judge of chapter 07's uneven ranks: training goes on until nobody has data left."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch07.judges.ranks import bytes_fault, gradients, mean_of, net, scaled, tensors_fault
from course_lib.exercises.ch07.probes import mean_square
from course_lib.judging import Fault, Judging, Mistake, Params, describe, judged, near
from course_lib.judging.ranks import UNKIND
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

TRAIN_RATE = 0.2


def _uneven_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def case(
        name: str, table: Sequence[Sequence[int]], kind: Any = "generality", part: str = "ranks", **more: Any
    ) -> Case:
        spec = {"seed": rng.randrange(2**31), "width": width, "layers": 2}
        data = tuple(
            (
                spec,
                TRAIN_RATE,
                [(torch.randn(rows, width, generator=coin), torch.randn(rows, width, generator=coin)) for rows in own],
            )
            for own in table
        )
        return Case(name=name, ranks=len(table), per_rank=data, kind=kind, part=part, **{"visible": False, **more})

    return [
        case("three ranks with 3, 1 and 2 batches", [(4, 4, 4), (4,), (4, 4)], "values", "weights", visible=True),
        case("two ranks, batches of several sizes", [(1, 5), (6, 2, 3)], "values", "weights"),
        case("as many batches everywhere", [(2, 3), (4, 1), (3, 3)], part="even"),
        case("a rank without a batch", [(3, 2), (), (4,)], part="empty"),
        case("nobody has a batch", [(), ()], part="empty"),
        case("two ranks, batches larger than the model", [(60, 60), (60,)], "cost", "bytes"),
        case("one rank alone", [(2, 3)]),
        case("five ranks", [(2,), (1, 1, 1, 1), (), (3, 2), (1,)]),
        *(case(f"two ranks, {unkind}", [(2, 1), (3,)], "protocol", "safe", adversary=unkind) for unkind in UNKIND),
    ]


def _trained(case: Case, weigh: str) -> list[list[Tensor]]:
    """Weights of every rank after training in which ranks count by `weigh`: "examples" is right."""
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


_WEIGHTS = (
    (
        "idle-counted",
        "ranks",
        "the mean was taken over ranks: an idle rank pulls it down, and a small batch counts as much as a large one.",
    ),
    ("mean-of-means", "active", "the mean was taken over the ranks that had data; their batches differ in size."),
    ("data-dropped", "shortest", "training stopped when the first rank ran dry; the other ranks' data were dropped."),
    ("read-again", "repeat", "a rank that ran dry went on with its last batch; nothing is read twice."),
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
            return ("own-steps", f"Rank {rank} returned {own}, its own number of batches; the run took {steps} steps.")
        return "other-steps", f"Rank {rank} returned {describe(got)}; the run took {steps} steps."
    return None


def _uneven_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    rows = [row if type(row) is dict else {} for row in outcome.value]
    want = _trained(case, "examples")[0]
    wrong = {name: _trained(case, how) for name, how, _ in _WEIGHTS}
    slips = [Mistake(name, lambda rank, name=name: wrong[name][rank], told) for name, _, told in _WEIGHTS]
    fault = tensors_fault(case, [row.get("weights") for row in rows], want, slips, "weight")
    lengths = [len(own[2]) for own in case.per_rank or ()]
    steps = max(lengths)
    fault = fault or _steps_fault([row.get("steps") for row in rows], lengths, steps)
    if case.adversary is not None:
        return judged(case, fault)
    wire = bytes_fault(outcome.meter, [[each] for each in want], steps, 128 * (steps + 1), ending=1) if steps else None
    return judged(case, fault, ("cost", "bytes", wire))


UNEVEN = {
    "uneven-inputs": Judging(
        shares={
            "values:weights": 0.4,
            "cost:bytes": 0.15,
            "protocol:safe": 0.1,
            "generality:even": 0.05,
            "generality:empty": 0.15,
            "generality:ranks": 0.15,
        },
        cases=_uneven_cases,
        verdicts=_uneven_verdicts,
        why="Ranks agree on every step before it happens: how many examples does it have, of all ranks together? A rank without any still "
        "answers the all-reduces, with zeros that change no sum; the count leaves it out of the mean.",
        pytorch="`with model.join():` shadows the collectives of ranks that ran dry; `divide_by_initial_world_size=False` leaves them out.",
    )
}
