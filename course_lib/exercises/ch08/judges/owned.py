"""Judge of chapter 08's first stage: the weights that came out, who can have stepped what, and what it kept."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import STATE, Stepper, Weights, glimpses, repeated
from course_lib.judging import Fault, Judging, Params, Weighed, describe, is_number, verdict
from course_lib.judging.gradients import alike, all_alike
from course_lib.judging.ranks import LATE, STREAM_LATE
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

NOTHING_SENT: Fault = (
    "nothing-sent",
    "No byte was sent, and all weights are right: so every rank stepped everything, and keeps all of the state. This is the plain optimizer.",
)
SLACK = 1024  # bytes for padding; tensors whose state is counted have far more


def _shapes(layers: int, width: int) -> list[tuple[int, ...]]:
    """A transformer's habit: large matrices and small vectors in turn, so that every second tensor is nearly nothing."""
    found: list[tuple[int, ...]] = [(3 * width, width)]
    for layer in range(layers):
        found += [(width,), (width + layer, width), (width + layer,), (width, width + layer)]
    return [*found, (width,)]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, layers, width = coin_of(rng), params["layers"], params["width"]

    def case(
        name: str,
        ranks: int,
        kind: Any,
        part: str,
        shapes: Sequence[Sequence[int]],
        *,
        steps: int = 2,
        visible: bool = False,
        optimizer: str = "adamw",
        adversary: Any = None,
        **more: Any,
    ) -> Case:
        spec = {
            "seed": rng.randrange(2**31),
            "shapes": [list(shape) for shape in shapes],
            "optimizer": optimizer,
            **more,
        }
        frozen = set(more.get("frozen", ()))
        gradients = [
            [
                None if place in frozen else torch.randn(list(shape), generator=coin)
                for place, shape in enumerate(shapes)
            ]
            for _ in range(steps)
        ]
        return Case(
            name=name, ranks=ranks, args=(spec, gradients), kind=kind, part=part, visible=visible, adversary=adversary
        )

    stack = _shapes(layers, width)
    while sum(map(math.prod, stack)) % 4 == 0:  # the first case has four ranks: a flat row is to need padding there
        stack[-1] = (stack[-1][0] + 1,)
    return [
        case("four ranks, AdamW", 4, "values", "weights", stack, visible=True),
        case(
            "three ranks, other weights", 3, "values", "weights", _shapes(layers - 1, width + 1), optimizer="momentum"
        ),
        case("two ranks, large and small in turn", 2, "cost", "share", [(40, 12), (3,)] * 5, steps=2),
        case("four ranks, large ones first", 4, "cost", "share", [*[(60, 40)] * 8, *[(4,)] * 8], steps=2),
        case("one rank alone", 1, "generality", "ranks", stack[:4], steps=2),
        case("seven ranks, three tensors", 7, "generality", "ranks", [(5, 7), (3,), (9, 2)], optimizer="momentum"),
        case("the first and the last are one", 3, "generality", "lists", stack[:7], tied=[0]),
        case("some are frozen", 3, "generality", "lists", stack[:9], frozen=[1, 3, 6]),
        case("a number without a dimension", 2, "generality", "lists", [(4, 3), (), (2, 2, 2)], optimizer="momentum"),
        case("three ranks, momentum", 3, "protocol", "in-flight", stack[:6], optimizer="momentum", adversary=LATE),
        case("three ranks, strict streams", 3, "protocol", "in-flight", stack[:6], steps=2, adversary=STREAM_LATE),
    ]


def plain(
    spec: Mapping[str, Any], steps: Sequence[Sequence[Tensor | None]], twice: Sequence[int] = (), anew: bool = False
) -> list[Tensor]:
    """The weights after these steps of the plain optimizer; those at `twice` stepped twice, or with an optimizer made `anew` for each step."""
    weights = Weights(spec)
    trained = [each for each in weights.tensors if each.requires_grad]
    optimizers = [weights.make(trained), *(weights.make([weights.tensors[place]]) for place in twice)]
    for gradients in steps:
        for optimizer in [weights.make(trained)] if anew else optimizers:
            for tensor, gradient in zip(weights.tensors, gradients, strict=True):
                tensor.grad = None if gradient is None else gradient.clone()
            optimizer.step()
    return [each.detach() for each in weights.tensors]


def _values(case: Case, results: Sequence[Any]) -> Fault | None:
    spec, steps = case.args
    want, start = plain(spec, steps), [each.detach() for each in Weights(spec).tensors]
    trained = [place for place, each in enumerate(Weights(spec).tensors) if each.requires_grad]
    for rank, row in enumerate(results):
        if type(row) is dict and set(row) == {"returned"}:
            return (
                "no-step",
                f"Rank {rank}: what came back is of type {str(row['returned'])[:40]}; return an object with a method `step`.",
            )
        if type(row) is not dict or type(row.get("weights")) is not list or not is_number(row.get("kept")):
            return "no-weights", f"Rank {rank} gave {describe(row)}; its weights are to come."
        got = row["weights"]
        if all_alike(got, want):
            continue
        if len(got) != len(want) or not all(
            isinstance(one, Tensor) and one.shape == two.shape and one.dtype == two.dtype
            for one, two in zip(got, want, strict=True)
        ):
            return "other-tensors", f"Rank {rank}: its tensors have other shapes or dtypes than they were given in."
        if case.adversary is not None:
            return "in-flight", (
                f"With {case.adversary}, rank {rank}'s weights change. A tensor is used while it is under way: before its "
                "`wait()` it may be neither read nor written."
            )
        return _named(case, rank, got, want, start, trained)
    return None


def _named(
    case: Case, rank: int, got: list[Tensor], want: list[Tensor], start: list[Tensor], trained: list[int]
) -> Fault:
    spec, steps = case.args
    wrong = [place for place in range(len(want)) if not all_alike([got[place]], [want[place]])]
    if frozen := [place for place in wrong if place not in trained]:
        return "frozen-touched", f"Rank {rank}: tensor {frozen[0]} is frozen, and was changed."
    if len(wrong) == len(trained) and all(torch.equal(got[place], start[place]) for place in trained):
        return (
            "nothing-stepped",
            f"Rank {rank}: all tensors are as they were; nothing was stepped, or not in the tensors that came.",
        )
    if still := [place for place in wrong if torch.equal(got[place], start[place])]:
        return "not-told", (
            f"Rank {rank}: {len(still)} of {len(trained)} tensors are as they were, the first is number {still[0]}: their owners' new "
            "values have not arrived."
        )
    if tied := spec.get("tied"):
        again = plain(spec, steps, tied)
        if all(all_alike([got[place]], [again[place]]) for place in wrong):
            return "stepped-twice", f"Rank {rank}: the tensor that is in the list twice was stepped twice."
    for name, told in (
        ("a-step-behind", "told before it was stepped? First the step, then the news."),
        ("fresh-state", "an optimizer that is made anew in every step: its moments are lost. Make it once."),
    ):
        late = plain(spec, steps[:-1]) if name == "a-step-behind" else plain(spec, steps, anew=True)
        if all(all_alike([got[place]], [late[place]]) for place in wrong):
            what = (
                f"{len(wrong)} of {len(trained)} tensors are as they should have been one step before:"
                if name == "a-step-behind"
                else "the weights are those of"
            )
            return name, f"Rank {rank}: {what} {told}"
    if nobodys := [
        (place, same) for place in wrong if 0 < (same := int((got[place] == start[place]).sum())) < got[place].numel()
    ]:
        return "nobodys", (
            f"Rank {rank}: {nobodys[0][1]} of the {got[nobodys[0][0]].numel()} numbers of tensor {nobodys[0][0]} are as they were, the others are new. Do the "
            "parts of all ranks cover the whole row, where it does not divide?"
        )
    right = len(want) - len(wrong)
    return "other-numbers", (
        f"Rank {rank}: tensor {wrong[0]} of {len(want)} is wrong; {right} are right. Who stepped it, and from which tensor did the "
        "others take it?"
    )


def _sizes(spec: Mapping[str, Any]) -> list[int]:
    return [each.nbytes for each in Weights(spec).tensors if each.requires_grad]


def _bytes_fault(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    spec, steps = case.args
    sizes, n, count = _sizes(spec), case.ranks or 1, len(steps)
    sent, total = sum(meter["bytes_sent"]), sum(sizes) * count
    if n == 1:
        return ("alone", f"One rank alone sent {sent:,} bytes.") if sent else None
    if not sent:
        return NOTHING_SENT
    padding = 4 * n * n * len(sizes) * count
    if sent > 1.02 * (n - 1) * total + padding:
        times = sent / ((n - 1) * total)
        if spec.get("tied") and times < 1.6:
            return "tied-twice", "The tensor that is in the list twice goes round twice: each of them once is enough."
        if spec.get("frozen") and times < 1.6:
            return "frozen-sent", "Frozen tensors go round as well; they do not change."
        name = "all-reduced" if 1.9 <= times <= 2.1 else "too-many-bytes"
        more = (
            " An all-reduce, for one, sends everything twice; what one rank knows need only be told."
            if name == "all-reduced"
            else ""
        )
        more = " Gradients are averaged already, and need not go round again." if 2.9 <= times <= 3.1 else more
        return (
            name,
            f"{sent:,} bytes went over the wire, {times:.3g} times what it takes to tell each new weight to the {n - 1} others once.{more}",
        )
    return None


def _share_fault(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    """A rank that received so little that it must have stepped more than its share itself."""
    spec, steps = case.args
    sizes, n, count = _sizes(spec), case.ranks or 1, len(steps)
    total, most = sum(sizes), sum(sizes) / n + max(sizes)
    if n == 1:
        return None
    if not sum(meter["bytes_sent"]):
        return NOTHING_SENT
    for rank, got in enumerate(meter["bytes_received"]):
        if got < 0.99 * count * (total - most):
            own = total - got / count
            return "unfair-share", (
                f"Rank {rank} received {got // count:,} bytes a step, so it stepped {own / total:.0%} of all bytes itself; a fair share and the "
                f"largest tensor are {most / total:.0%}. Share out bytes, not tensors."
            )
    return None


def _state_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    spec, _ = case.args
    sizes, n, each = _sizes(spec), case.ranks or 1, STATE[spec["optimizer"]]
    if n == 1:
        return None
    fair = sum(sizes) / n
    most = each * (fair + max(sizes)) + SLACK
    rank = max(range(n), key=lambda one: results[one]["kept"])
    kept = results[rank]["kept"]
    if kept <= most:
        return None
    if kept >= 0.95 * each * sum(sizes):
        return "whole-state", (
            f"Rank {rank}'s optimizers keep {kept:,} bytes of state after the steps, that of all parameters ({each * sum(sizes):,}): nothing is shared out."
        )
    return (
        "state-too-large",
        f"Rank {rank}'s optimizers keep {kept:,} bytes of state after the steps; that of a fair share and the largest tensor has {each * (fair + max(sizes)):,.0f}.",
    )


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """1.1 MB of weights on four ranks, and 24 times that of state: a rank may have 6 times that, 9 with a tensor more, but not all 24.

    Beside it there is room for weights, gradients and three flat rows, and for as much again.
    """
    coin, ranks, count = coin_of(rng), 4, 8

    def case(name: str, width: int) -> Case:
        spec = {
            "seed": rng.randrange(2**31),
            "shapes": [[width, width]] * count,
            "optimizer": "paces",
            WEIGHED: torch.randint(width * width, (32,), generator=coin),
        }
        return Case(
            name=name,
            ranks=ranks,
            args=(spec, [torch.randn(250, generator=coin)]),
            kind="cost",
            part="state",
            visible=False,
            seconds=30.0,
        )

    def done(outcome: Outcome) -> bool:
        spec, (table,) = large.args
        picked = list(glimpses(Weights(spec).tensors, spec[WEIGHED]))
        for tensor, gradient in zip(
            picked, glimpses(repeated(table, width * width, count), spec[WEIGHED]), strict=True
        ):
            tensor.grad = gradient
        Stepper(picked, spec["optimizer"]).step()
        got = outcome.value if type(outcome.value) is list else []
        right = len(got) == ranks and all(alike(each, torch.stack(picked)) for each in got)
        return right and not _bytes_fault(large, outcome.meter) and not _share_fault(large, outcome.meter)

    width = 184
    large, size = case("four ranks, 1.1 MB of weights with 26 MB of state", width), count * width * width * 4
    most = ranks * (STATE["paces"] * (1 / ranks + 1 / count) + 2 * 5) * size
    return Weighed(case=large, warm=case("four ranks, small weights", 8), most=most, done=done, shares=("cost:state",))


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _values(case, outcome.value)
    if (
        not fault
        and case.kind in ("generality", "protocol")
        and (case.ranks or 1) > 1
        and not sum(outcome.meter["bytes_sent"])
    ):
        fault = NOTHING_SENT
    found = [verdict(case.kind, case.part, case, fault)]
    if fault or case.adversary is not None:
        return found
    found += [
        verdict("cost", part, case, look(case, outcome.meter))
        for part, look in (("bytes", _bytes_fault), ("share", _share_fault))
    ]
    if case.name.startswith("four ranks, large"):
        found.append(verdict("cost", "state", case, _state_fault(case, outcome.value)))
    return found


OWNED = {
    "own-and-tell": Judging(
        shares={
            "values:weights": 0.2,
            "cost:bytes": 0.2,
            "cost:share": 0.15,
            "cost:state": 0.2,
            "generality:ranks": 0.1,
            "generality:lists": 0.1,
            "protocol:in-flight": 0.05,
        },
        measured_by_worker=("cost:state",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="After the average every rank has all gradients, so anyone can step anything. Whoever steps a tensor needs its moments, the others need only the result: "
        "state falls by N for one broadcast. Sharing out bytes, the largest first, keeps every rank within a tensor of the mean. ZeRO proper saves the broadcast, "
        "too: it reduces gradients to their owners only, and gathers weights instead.",
        pytorch="`torch.distributed.optim.ZeroRedundancyOptimizer` does this, largest first as well; DeepSpeed's and Megatron's cut a flat row instead.",
    )
}
