"""Judge of chapter 08's clipping: one norm over parts that lie on many ranks, some of them several times."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, describe, is_number, verdict
from course_lib.judging.ranks import LATE
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict

REL = 1e-5
JUNK = 7.0  # padding is so many times the largest number


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, numbers = coin_of(rng), params["numbers"]

    def case(
        name: str,
        ranks: int,
        kind: Any,
        part: str,
        *,
        group: int | None = None,
        tensors: int = 3,
        scale: float = 1.0,
        factor: float = 0.5,
        sizes: Sequence[int] | None = None,
        visible: bool = False,
        adversary: Any = None,
        zero: bool = False,
        junk: float = JUNK,
    ) -> Case:
        group = group or ranks
        lengths = list(sizes or [numbers + rng.randrange(9) for _ in range(tensors)])
        held = [
            [min(max(0, length - rank * -(-length // group)), -(-length // group)) for length in lengths]
            for rank in range(group)
        ]
        parts = []
        for rank in range(group):
            mine = []
            for length, count in zip(lengths, held[rank], strict=True):
                part_ = torch.randn(-(-length // group), generator=coin) * (0 if zero else scale) * (1 + rank)
                part_[count:] = junk * scale * ranks
                mine.append(part_)
            parts.append(mine)
        norm = _norm(params["norm"], parts, held)
        most = norm * factor if norm else 1.0
        per_rank = tuple(
            (group, list(held[rank % group]), most, [each.clone() for each in parts[rank % group]])
            for rank in range(ranks)
        )
        return Case(
            name=name, ranks=ranks, per_rank=per_rank, kind=kind, part=part, visible=visible, adversary=adversary
        )

    return [
        case("four ranks", 4, "values", "norm", visible=True),
        case("two groups of three ranks", 6, "values", "replicas", group=3, visible=True),
        case("three ranks, a high limit", 3, "values", "norm", factor=1.5),
        case("three groups of two ranks", 6, "values", "replicas", group=2),
        case("eight parts on five ranks", 5, "cost", "scalar", tensors=8),
        case("one rank alone", 1, "generality", "ranks"),
        case("six ranks, four of them without a number", 6, "generality", "ranks", sizes=[2, 1, 2]),
        case("four ranks, each its own group", 4, "generality", "ranks", group=1),
        case("very large numbers", 3, "generality", "numbers", scale=1e25),
        case("two groups, large numbers", 4, "generality", "numbers", group=2, scale=1e22),
        case("padding that is no number", 3, "generality", "numbers", sizes=[numbers, 7, 5], junk=math.nan),
        case("all of them zero", 3, "generality", "numbers", zero=True),
        case("three ranks, late messages", 3, "protocol", "in-flight", adversary=LATE),
    ]


def _norm(norm: str, parts: Sequence[Sequence[Tensor]], held: Sequence[Sequence[int]], times: float = 1.0) -> float:
    """The norm of the first numbers of all parts, each counted so many times."""
    numbers = torch.cat(
        [
            part[:count].double()
            for row, counts in zip(parts, held, strict=True)
            for part, count in zip(row, counts, strict=True)
        ]
    )
    if not len(numbers):
        return 0.0
    return numbers.abs().max().item() if norm == "max" else math.sqrt(times * numbers.square().sum().item())


def _known(params: Params, case: Case) -> tuple[float, Callable[[int], list[tuple[str, float, str]]]]:
    """The norm, and by rank the norms that learners really reach instead."""
    rows = case.per_rank or ()
    group, n, kind = rows[0][0], case.ranks or 1, params["norm"]
    parts, held = [row[3] for row in rows[:group]], [row[1] for row in rows[:group]]
    padded = [[len(part) for part in row] for row in parts]
    want = _norm(kind, parts, held)
    other = _norm("max" if kind == "2" else "2", parts, held)

    def slips(rank: int) -> list[tuple[str, float, str]]:
        own = rank % group
        alone = _norm(kind, [parts[own]], [held[own]])
        locals_ = [_norm(kind, [parts[r]], [held[r]]) for r in range(group)]
        return [
            ("own-norm", alone, "this is the norm of the rank's own parts; the others' are part of the model, too."),
            (
                "replicas-counted",
                _norm(kind, parts, held, n / group),
                "each part is counted once for every rank that holds it; add up over `inside` only.",
            ),
            (
                "padding-counted",
                _norm(kind, parts, padded),
                "the padding is in it: only the first `counts[i]` numbers of a part are the model's.",
            ),
            (
                "own-padding-counted",
                _norm(kind, [parts[own]], [padded[own]]),
                "this is the rank's own parts, padding and all.",
            ),
            ("norms-added", sum(locals_), "norms of parts do not add up; their squares do."),
            (
                "root-forgotten",
                want**2 if kind == "2" else -1.0,
                "this is the sum of the squares; the root is missing.",
            ),
            ("averaged", want / math.sqrt(group), "the ranks' squares are averaged; add them up."),
            (
                "public-form" if kind == "max" else "other-norm",
                other,
                f"{'this solves the public form of the exercise: ' if kind == 'max' else ''}"
                "this is another norm than the one asked for.",
            ),
            (
                "per-tensor",
                max(
                    (
                        _norm(kind, [[row[i]] for row in parts], [[row[i]] for row in held])
                        for i in range(len(parts[0]))
                    ),
                    default=-1.0,
                )
                if kind == "2"
                else -1.0,
                "this is one tensor's norm; the norm goes over all of them together.",
            ),
        ]

    return want, slips


def _values(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    want, slips = _known(params, case)
    for rank, row in enumerate(results):
        if type(row) is not dict or type(row.get("parts")) is not list or "norm" not in row:
            return "no-result", f"Rank {rank} gave {describe(row)}; a norm is to come."
        got = row["norm"]
        if got is None:
            return "returned-none", f"Rank {rank} returned None: is a `return` missing?"
        if type(got) is float and not math.isfinite(got):
            return (
                "not-finite",
                f"Rank {rank}'s norm is {got}: did squares run out of room, was there a zero to divide by, or is padding in it? NaN times zero is NaN.",
            )
        if not is_number(got):
            return "not-a-number", f"Rank {rank} returned {describe(got)}; the norm is a number."
        if math.isclose(got, want, rel_tol=REL, abs_tol=1e-300):
            continue
        if case.adversary is not None:
            return (
                "in-flight",
                f"With {case.adversary}, rank {rank}'s norm changes: a tensor is read before its `wait()`.",
            )
        for name, value, message in slips(rank):
            if value > 0 and not math.isclose(value, want, rel_tol=1e-3) and math.isclose(got, value, rel_tol=1e-3):
                return name, f"Rank {rank}: {message}"
        apart = f"{got / want:.4g} times the right one" if want else "not zero"
        return "other-norm-value", f"Rank {rank}: a norm of {got:.6g}, {apart}."
    return _scaled(params, case, results, want)


def _scaled(params: Params, case: Case, results: Sequence[Any], want: float) -> Fault | None:
    for rank, (row, given) in enumerate(zip(results, case.per_rank or (), strict=True)):
        _, counts, most, parts = given
        factor = min(1.0, most / want) if want else 1.0
        if len(row["parts"]) != len(parts):
            return "other-parts", f"Rank {rank} has {len(row['parts'])} parts afterwards, where {len(parts)} came."
        for place, (got, part, count) in enumerate(zip(row["parts"], parts, counts, strict=True)):
            if not isinstance(got, Tensor) or got.shape != part.shape or got.dtype != part.dtype:
                return (
                    "other-parts",
                    f"Rank {rank}: part {place} is no longer a {part.dtype} tensor of {len(part)} numbers.",
                )
            if not count or torch.allclose(got[:count], part[:count] * factor, rtol=1e-4, atol=0):
                continue
            if not torch.isfinite(got[:count]).all():
                return "not-finite", (
                    f"Rank {rank}: part {place} holds NaN or infinity after clipping. Scale by one factor: `part * most` alone has no room in "
                    "float32 where both are large, and a norm may be zero."
                )
            if factor < 1 and torch.equal(got[:count], part[:count]):
                return (
                    "not-scaled",
                    f"Rank {rank}: the norm is {want:.4g}, the limit {most:.4g}, and part {place} is as it was. Scale the tensors that came, in place.",
                )
            if factor == 1:
                return (
                    "scaled-anyway",
                    f"Rank {rank}: the norm is {want:.4g}, below the limit of {most:.4g}, and part {place} was changed.",
                )
            return (
                "other-scale",
                f"Rank {rank}: part {place} was scaled by another factor than limit over norm, {factor:.4g}.",
            )
    return None


def _scalar_fault(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    rows, n = case.per_rank or (), case.ranks or 1
    if n == 1:
        return None
    most_bytes, most_messages = 64 * n, 5 * (n - 1)
    worst = max(range(n), key=lambda rank: meter["bytes_sent"][rank])
    if meter["bytes_sent"][worst] > most_bytes:
        return "gathered", (
            f"Rank {worst} sent {meter['bytes_sent'][worst]:,} bytes: gradients went over the wire. One number of each rank is enough."
        )
    if max(meter["messages_sent"]) > most_messages:
        return "one-each", (
            f"{max(meter['messages_sent'])} messages per rank for {len(rows[0][3])} parts: add up the parts first, then talk once."
        )
    return None


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _values(params, case, outcome.value)
    found = [verdict(case.kind, case.part, case, fault)]
    if fault or case.kind in ("protocol", "generality"):
        return found
    if case.kind == "cost":
        return [verdict("cost", "scalar", case, _scalar_fault(case, outcome.meter))]
    return [*found, verdict("cost", "scalar", case, _scalar_fault(case, outcome.meter))]


CLIP = {
    "clip-shards": Judging(
        shares={
            "values:norm": 0.25,
            "values:replicas": 0.25,
            "cost:scalar": 0.2,
            "generality:ranks": 0.1,
            "generality:numbers": 0.15,
            "protocol:in-flight": 0.05,
        },
        cases=_cases,
        verdicts=_verdicts,
        why="Squares add up over any cut, so one number per rank is enough, as long as each of the model's numbers is counted once: not again on its replicas, and not what "
        "lies in the padding. The factor is then the same on all ranks, and the parts stay parts of one gradient.",
        pytorch="`torch.nn.utils.clip_grad_norm_` on parameters of `fully_shard` does it: they are DTensors and know how they are laid out; `.full_tensor()` of what it returns "
        "is the norm.",
    )
}
