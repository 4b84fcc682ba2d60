"""Judge of chapter 08's repair: a training over shards against the same one alone, and what it kept on each rank."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import STATE, Stepper, glimpses, tied_model
from course_lib.judging import Fault, Judging, Params, Weighed, describe, is_number, verdict
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import Flat

RATE, LENGTH = 0.05, 5
CLOSE = 1e-7  # float64: rounding is far below, every slip far above


def _maker(params: Params, rng: random.Random) -> Callable[..., Case]:
    coin = coin_of(rng)

    def case(
        name: str,
        ranks: int,
        kind: Any,
        part: str,
        *,
        steps: int = 3,
        share: float = 0.45,
        visible: bool = False,
        **more: Any,
    ) -> Case:
        spec = {
            "seed": rng.randrange(2**31),
            "width": params["width"],
            "vocabulary": 11,
            "blocks": 3,
            "rate": RATE,
            **more,
        }
        rows = [
            [torch.randint(spec["vocabulary"], (2, LENGTH + 1), generator=coin) for _ in range(steps)]
            for _ in range(ranks)
        ]
        batches = [[(row[:, :-1].clone(), row[:, 1:].clone()) for row in mine] for mine in rows]
        norms = alone(_key(spec), _frozen(batches), None)[2]
        spec["most"] = share * min(norms)
        return Case(
            name=name,
            ranks=ranks,
            args=(spec,),
            per_rank=tuple((mine,) for mine in batches),
            kind=kind,
            part=part,
            visible=visible,
        )

    return case


def _cases(params: Params, rng: random.Random) -> list[Case]:
    case = _maker(params, rng)
    return [
        case("three ranks, clipped", 3, "values", "weights", visible=True),
        case("two ranks, other data", 2, "values", "weights", width=params["width"] + 1),
        case("three ranks, nothing to clip", 3, "generality", "runs", share=1e6),
        case("one rank alone", 1, "generality", "runs", steps=2),
        case("four ranks, two blocks", 4, "generality", "runs", steps=2, blocks=2),
    ]


def _key(spec: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in spec.items() if name != "most"))


def _frozen(batches: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(
        tuple((tuple(map(tuple, x.tolist())), tuple(map(tuple, y.tolist()))) for x, y in mine) for mine in batches
    )


@cache
def alone(
    key: Any, batches: Any, most: float | None, ways: str = ""
) -> tuple[list[list[float]], dict[str, Tensor], list[float]]:
    """Losses of each rank by step, the weights in the end, norms by step: one process with all ranks' batches.

    `ways`: "parts" clips each rank's part by its own norm, as the buggy program does once its other bugs are gone; "divided" divides
    gradients by the ranks once more.
    """
    spec = dict(key)
    model = tied_model(spec)
    optimizer = Stepper(model.parameters(), spec.get("optimizer", "adamw"), spec["rate"])
    losses: list[list[float]] = [[] for _ in batches]
    norms = []
    for step in range(len(batches[0])):
        found = []
        for rank, mine in enumerate(batches):
            inputs, targets = (torch.tensor(each) for each in mine[step])
            found.append(functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()))
            losses[rank].append(found[-1].item())
        (sum(found) / len(found) ** (2 if ways == "divided" else 1)).backward()
        norms.append(torch.nn.utils.get_total_norm([each.grad for each in model.parameters()]).item())
        if ways == "parts":
            _clip_parts(model, len(batches), most or 0.0)
        elif most is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), most)
        optimizer.step()
        optimizer.zero_grad()
    return losses, {name: each.detach().clone() for name, each in model.named_parameters()}, norms


def _clip_parts(model: Any, ranks: int, most: float) -> None:
    named = dict(model.named_parameters())
    units = [{name: each for name, each in named.items() if not name.startswith("blocks.")}]
    units += [
        {name: each for name, each in named.items() if name.startswith(f"blocks.{b}.")}
        for b in range(len(model.blocks))
    ]
    for rank in range(ranks):
        pieces = []
        for unit in units:
            flat = Flat({name: each.numel() for name, each in unit.items()}, ranks)
            pieces += [unit[piece.name].grad.view(-1)[piece.start : piece.stop] for piece in flat.pieces(rank)]
        norm = torch.cat(pieces).norm() if pieces else torch.tensor(0.0)
        for piece in pieces:
            piece *= min(1.0, most / (float(norm) + 1e-6))


def _same(got: Any, want: Mapping[str, Tensor]) -> bool:
    return (
        type(got) is dict
        and set(got) == set(want)
        and all(
            isinstance(got[name], Tensor)
            and got[name].shape == each.shape
            and torch.allclose(got[name].double(), each, rtol=0, atol=CLOSE)
            for name, each in want.items()
        )
    )


def _values(case: Case, results: Sequence[Any]) -> Fault | None:
    spec, n = case.args[0], case.ranks or 1
    batches = _frozen([row[0] for row in case.per_rank or ()])
    losses, want, _ = alone(_key(spec), batches, spec["most"])
    start = {name: each.detach() for name, each in tied_model(spec).named_parameters()}
    for rank, row in enumerate(results):
        if type(row) is dict and set(row) == {"returned"}:
            return (
                "no-model",
                f"Rank {rank}: return (losses, sharded), a list and the FullySharded model, as the program does; got {str(row['returned'])[:80]}.",
            )
        if (
            type(row) is not dict
            or not is_number(row.get("state"))
            or type(row.get("losses")) is not list
            or type(row.get("weights")) is not dict
        ):
            return (
                "no-model",
                f"Rank {rank}: return the losses and the FullySharded model, as the program does; got {describe(row)}.",
            )
        got = row["weights"]
        if _same(got, want):
            continue
        if _same(got, start):
            return "nothing-moves", (
                f"Rank {rank}: after {len(losses[0])} steps all weights are as they were. Whose tensors does the optimizer step, and where are "
                "the gradients?"
            )
        if _same(got, alone(_key(spec), batches, None)[1]):
            return "not-clipped", f"Rank {rank}: the weights are those of a training without clipping."
        if n > 1 and _same(got, alone(_key(spec), batches, spec["most"], "parts")[1]):
            return (
                "own-norm",
                f"Rank {rank}: every rank has clipped by the norm of its own parts. The norm is the whole model's.",
            )
        if set(got) != set(want):
            odd = sorted(set(got) ^ set(want))[0]
            return (
                "untied",
                f"Rank {rank}: the model has other parameters than before, such as {odd!r}; the head shares the embedding's weights.",
            )
        if n > 1 and _same(got, alone(_key(spec), batches, spec["most"], "divided")[1]):
            return (
                "divided-again",
                f"Rank {rank}: the gradients are divided by the number of ranks once more; `FullySharded` has averaged them.",
            )
        return "other-weights", (
            f"Rank {rank}: the weights are not those of the same training on one process. Look at one step: are all gradients there when they are clipped "
            "(`finish()`), averaged once, and scaled by `most` over one norm, the whole model's?"
        )
    for rank, row in enumerate(results):
        if len(row["losses"]) != len(losses[rank]) or not all(
            is_number(a) and abs(a - b) < 1e-6 for a, b in zip(row["losses"], losses[rank], strict=True)
        ):
            return (
                "other-losses",
                f"Rank {rank}: the weights are right; the losses that came back are not the rank's own, one per step.",
            )
    return None


def _state_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    n, count = case.ranks or 1, sum(each.numel() for each in tied_model(case.args[0]).parameters())
    kept, fair = max(row["state"] for row in results), 2 * 8 * count / n
    if n == 1 or kept <= 1.3 * fair + 2048:
        return None
    return (
        "whole-state",
        f"A rank keeps {kept:,} bytes of optimizer state; its share is {fair:,.0f}. The optimizer was made over something whole.",
    )


def _units_fault(case: Case, meter: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> Fault | None:
    spec, n = case.args[0], case.ranks or 1
    if n == 1:
        return None
    steps, blocks = len((case.per_rank or ())[0][0]), spec["blocks"]
    least = (
        (n - 1) * steps * (2 * blocks + 2)
    )  # rows may be kept until the backward pass; what clipping sends comes on top
    if min(meter["messages_sent"]) < least:
        return "one-giant-unit", (
            f"A rank sent {min(meter['messages_sent'])} messages; gathering and reducing every block takes at least {least}. Blocks are no "
            "units any more, so that the model is gathered as one."
        )
    wide = 8 * sum(each.numel() for each in tied_model(spec).parameters()) * (n - 1) / n
    most = 3.2 * wide * steps + wide + 4096 * steps
    if max(meter["bytes_sent"]) > most:
        return (
            "too-many-bytes",
            f"A rank sent {max(meter['bytes_sent']):,} bytes; {steps} steps of FSDP take {3 * wide * steps:,.0f}.",
        )
    return None


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """1.2 MB of weights on four ranks, and 24 times that of state: a rank has 6 times that, the count allows 7.8, but not all 24.

    Beside it there is room for the model as it is built, all rows gathered and all gradients, and for twice as much again.
    """
    make, ranks, width = _maker(params, rng), 4, 112

    def case(name: str, width: int) -> Case:
        return make(name, ranks, "cost", "state", steps=1, width=width, optimizer="paces")

    def weighed(case: Case) -> Case:
        return replace(case, args=({**case.args[0], WEIGHED: places},), seconds=30.0)

    def done(outcome: Outcome) -> bool:
        spec, batches = plain.args[0], _frozen([row[0] for row in plain.per_rank or ()])
        weights = alone(_key(spec), batches, spec["most"])[1]
        want = glimpses([weights[name] for name in sorted(weights)], places)
        got = outcome.value if type(outcome.value) is list else []
        near = all(
            isinstance(each, Tensor)
            and each.shape == want.shape
            and each.dtype == want.dtype
            and torch.allclose(each, want, rtol=0, atol=CLOSE)
            for each in got
        )
        if len(got) != ranks or not near:
            return False
        fault = _units_fault(plain, outcome.meter, ())
        return (
            fault is None or fault[0] == "too-many-bytes"
        )  # weights gathered to look at are a third of a single step's bytes

    places = torch.randint(2 * width * width, (16,), generator=coin_of(rng))
    plain = case("four ranks, 1.2 MB of weights with 29 MB of state", width)
    size = 8 * sum(each.numel() for each in tied_model(plain.args[0]).parameters())
    most = ranks * (STATE["paces"] / ranks * 1.3 + 3 * 3) * size
    return Weighed(
        case=weighed(plain),
        warm=weighed(case("four ranks, few weights", 8)),
        most=most,
        done=done,
        shares=("cost:state",),
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _values(case, outcome.value)
    found = [verdict(case.kind, case.part, case, fault)]
    if fault:
        return found
    return [
        *found,
        verdict("cost", "state", case, _state_fault(case, outcome.value)),
        verdict("cost", "units", case, _units_fault(case, outcome.meter, outcome.value)),
    ]


BUG = {
    "loss-stands-still": Judging(
        shares={"values:weights": 0.5, "cost:state": 0.15, "cost:units": 0.15, "generality:runs": 0.2},
        measured_by_worker=("cost:state",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="Sharding replaces parameters: whoever holds the old ones steps tensors that nobody uses. So shard first, then make the optimizer, over `shards()`. A norm over "
        "shards is one rank's share of it; and a tensor that is used in two places belongs to one unit that is gathered for both: here the root.",
        pytorch="With `fully_shard` the order is the same: shard, then build the optimizer; `clip_grad_norm_` works on its DTensors. Since 2.13 it refuses a parameter in two "
        "groups; `fully_shard([module_a, module_b])` puts both in one.",
    )
}
