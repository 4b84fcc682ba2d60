"""Judge of chapter 08's FSDP by hand: the parts of the gradients, what was gathered how often, and what lay around."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import repeated
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, describe, is_number, verdict
from course_lib.judging.gradients import alike, gradients_fault
from course_lib.judging.ranks import BUFFERS_LATE, LATE, STREAM_LATE
from course_lib.judging.tensors import coin_of
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import Flat, row_bytes

WIDE = 8  # bytes of a number
SAMPLES = 3
NOT_KEPT = (
    "With `reshard=False` a row is gathered once and stays until its unit's backward; here it was gathered again."
)
DEEP, DEEP_WIDTH = 12, 24  # of the run whose memory is counted: units alike, and many
ROWS = 5.5  # of a unit, while one computes: two of weights, two of gradients, inputs of all units
LOOSE, TABLE = 20, 250  # rows beside the parts on the scales, and numbers that differ there
AHEAD = 1.4  # units: one, and what the answer may have talked about besides


def _counts(widths: Sequence[int]) -> list[int]:
    return [(into + 1) * out for into, out in zip(widths, widths[1:], strict=False)]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, units, width = coin_of(rng), params["units"], params["width"]

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=coin, dtype=torch.float64)

    def case(
        name: str,
        ranks: int,
        kind: Any,
        part: str,
        *,
        widths: Sequence[int] | None = None,
        wish: tuple[Any, ...] = (),
        visible: bool = False,
        adversary: Any = None,
        **more: Any,
    ) -> Case:
        widths = list(widths) if widths else [width + rng.randrange(4) for _ in range(units + 1)]
        counts = _counts(widths)
        spec = {"widths": widths, "counts": counts, "wish": wish, **more}
        whole = [randn(count) * 0.5 for count in counts]
        data = [(randn(SAMPLES, widths[0]), randn(SAMPLES, widths[-1])) for _ in range(ranks)]
        shards = [cut(row, ranks, params["owner"]) for row in whole]
        mine = tuple((spec, [parts[rank] for parts in shards], *data[rank]) for rank in range(ranks))
        return Case(
            name=name,
            ranks=ranks,
            per_rank=mine,
            kind=kind,
            part=part,
            visible=visible,
            adversary=adversary,
            secret={"whole": whole, "data": data},
        )

    few = [width, width + 2, width + 1, width]
    return [
        case(f"four ranks, {units} units", 4, "values", "gradients", visible=True),
        case("three ranks, other data", 3, "values", "gradients"),
        case("three ranks, rows kept", 3, "generality", "kept", wish=(False,)),
        case("two ranks, asked to let go", 2, "generality", "kept", wish=(True,), widths=few),
        case("twelve units on four ranks", 4, "cost", "memory", widths=[DEEP_WIDTH] * (DEEP + 1), measured=True),
        case("one rank alone", 1, "generality", "ranks", widths=few),
        case("five ranks, rows shorter than that", 5, "generality", "ranks", widths=[2, 1, 1, 2, 1]),
        case("a single unit", 3, "generality", "ranks", widths=few[:2]),
        *(
            case(f"three ranks, {unkind}", 3, "protocol", "in-flight", widths=few, adversary=unkind)
            for unkind in (LATE, BUFFERS_LATE, STREAM_LATE)
        ),
    ]


def cut(row: Tensor, ranks: int, owner: int = 0) -> list[Tensor]:
    """The part of each rank, padded with zeros."""
    flat = Flat({"": len(row)}, ranks)
    parts = torch.cat([row, row.new_zeros(flat.padded - len(row))]).reshape(ranks, flat.part)
    return [parts[(rank + owner) % ranks].clone() for rank in range(ranks)]


def gradients(widths: Sequence[int], whole: Sequence[Tensor], x: Tensor, target: Tensor) -> list[Tensor]:
    """The flat gradient of each unit on one rank's data, by autograd."""
    rows = [row.clone().requires_grad_() for row in whole]
    for row, into, out in zip(rows, widths, widths[1:], strict=False):
        x = torch.tanh(torch.nn.functional.linear(x, row[: into * out].view(out, into), row[into * out :]))
    loss = (x - target).square().sum() / 2 / len(target)
    return list(torch.autograd.grad(loss, rows))


def _values(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    (spec, *_), n, secret = (case.per_rank or ())[0], case.ranks or 1, case.secret
    own = [gradients(spec["widths"], secret["whole"], *data) for data in secret["data"]]
    mean = [torch.stack(rows).mean(0) for rows in zip(*own, strict=True)]

    def held(rows: Sequence[Tensor], rank: int, owner: int = params["owner"]) -> list[Tensor]:
        return [cut(row, n, owner)[rank] for row in rows]

    if fault := _shape_fault(results, len(mean)):
        return fault
    public = "This solves the public form of the exercise: " if params["owner"] else ""
    taken = _in_rank_order(spec["widths"], secret, n) if public else mean
    slips = [
        Mistake(
            "sum",
            lambda rank: held([n * row for row in mean], rank),
            "these are the sums over ranks; their means are asked for.",
        ),
        Mistake(
            "divided-twice",
            lambda rank: held([row / n for row in mean], rank),
            "the means are divided by the number of ranks once more.",
        ),
        Mistake(
            "own-gradient",
            lambda rank: held(own[rank], rank),
            "these are the parts of the rank's own gradients; nothing was reduced.",
        ),
        Mistake(
            "own-divided",
            lambda rank: held([row / n for row in own[rank]], rank),
            "these are parts of the rank's own gradients, divided: the others' are missing.",
        ),
        Mistake(
            "public-form" if public else "wrong-owner",
            lambda rank: held(mean, rank, 1 - params["owner"]),
            f"{public}these are the gradients of another rank's part. Which part does this rank hold?",
        ),
        Mistake(
            "public-form",
            lambda rank: held(taken, rank, 0),
            f"{public}weights and gradients are put together as if rank r held part r.",
        ),
        Mistake(
            "uneven-cut",
            lambda rank: [_split(row, n, (rank + params["owner"]) % n) for row in mean],
            "the gradient was cut into parts as equal as they can be; cut it where the weights were cut: all parts have ⌈count / N⌉ numbers, with the padding last.",
        ),
        Mistake(
            "backwards",
            lambda rank: held(mean[::-1], rank),
            "these are the right parts in the order of the backward pass; give them in the order of the units.",
        ),
    ]
    for rank, row in enumerate(results):
        parts = row["parts"] if type(row["parts"]) is list else []
        if all(isinstance(each, Tensor) for each in parts) and any(
            torch.isnan(each).any() for each in parts if each.is_floating_point()
        ):
            if case.adversary is not None:
                break
            return "read-after-free", (
                f"Rank {rank}: NaN in its gradients. A row of weights was used again after another unit had computed, and by then it was "
                "overwritten: let it go, and gather it again."
            )
        if whole := [
            u
            for u, (got, want) in enumerate(zip(parts, mean, strict=False))
            if n > 1 and isinstance(got, Tensor) and got.numel() >= len(want) > len(cut(want, n)[0])
        ]:
            return (
                "whole-gradient",
                f"Rank {rank} returned the whole gradient of unit {whole[0]}; this rank's part is to come, in the shape of its shard.",
            )
    return _by_rank(case, results, [held(mean, rank) for rank in range(n)], slips if n > 1 else [], params["owner"])


def _in_rank_order(widths: Sequence[int], secret: Mapping[str, Any], n: int) -> list[Tensor]:
    """The mean gradients where each row was put together as if rank r held part r."""
    mixed = [torch.cat(cut(row, n, 1))[: len(row)] for row in secret["whole"]]
    own = [gradients(widths, mixed, *data) for data in secret["data"]]
    return [torch.stack(rows).mean(0) for rows in zip(*own, strict=True)]


def _by_rank(
    case: Case, results: Sequence[Any], wants: Sequence[Sequence[Tensor]], slips: Sequence[Mistake], owner: int
) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    for rank, (row, want) in enumerate(zip(results, wants, strict=True)):
        if case.adversary is None and _only_padding(
            row["parts"], want, [held_of(count, n, rank, owner) for count in spec["counts"]]
        ):
            return (
                "padding-not-zero",
                f"Rank {rank}: its numbers are right, but behind them, where a row ends in padding, is something else than zero.",
            )
        mine = [Mistake(each.name, lambda _, each=each, rank=rank: each.on(rank), each.message) for each in slips]
        if fault := gradients_fault(case, [row["parts"]], want, mine, "part"):
            return fault[0], fault[1].replace("Rank 0", f"Rank {rank}").replace("rank 0", f"rank {rank}")
    return None


def _split(row: Tensor, ranks: int, place: int) -> Tensor:
    """A part as `tensor_split` cuts it, filled up with zeros."""
    part = row.tensor_split(ranks)[place]
    return torch.cat([part, part.new_zeros(-(-len(row) // ranks) - len(part))])


def held_of(count: int, ranks: int, rank: int, owner: int) -> int:
    """How many numbers of a unit lie in a rank's part, padding left out."""
    part = Flat({"": count}, ranks).part
    return min(max(count - (rank + owner) % ranks * part, 0), part)


def _only_padding(got: Sequence[Any], want: Sequence[Tensor], counts: Sequence[int]) -> bool:
    """Whether all numbers are right, and some padding is not zero."""
    if not all(
        isinstance(one, Tensor) and one.shape == two.shape and one.dtype == two.dtype
        for one, two in zip(got, want, strict=True)
    ):
        return False
    right = all(
        torch.allclose(one[:count], two[:count], rtol=1e-6, atol=1e-9)
        for one, two, count in zip(got, want, counts, strict=True)
    )
    return right and any(bool((one[count:] != 0).any()) for one, count in zip(got, counts, strict=True))


def _shape_fault(results: Sequence[Any], units: int) -> Fault | None:
    for rank, row in enumerate(results):
        if (
            type(row) is not dict
            or not is_number(row.get("held"))
            or type(row.get("order")) is not list
            or "parts" not in row
        ):
            return "no-parts", f"Rank {rank} gave {describe(row)}; a list of parts is to come."
        if row["parts"] is None:
            return "returned-none", f"Rank {rank} returned None: is a `return` missing?"
        if type(row["parts"]) is not list or len(row["parts"]) != units:
            return (
                "no-parts",
                f"Rank {rank} returned {describe(row['parts'])}; a list of {units} tensors is to come, one for each unit.",
            )
        called = [list(each) for each in row["order"] if type(each) in (tuple, list)]
        skipped = [(what, u) for what in ("forward", "backward") for u in range(units) if [what, u] not in called]
        if skipped:
            return "skipped", f"Rank {rank} never called {skipped[0][0]} for unit {skipped[0][1]}."
    return None


def _gathers_fault(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    if n == 1:
        return None
    each = [row_bytes(count, n, WIDE) for count in spec["counts"]]
    kept, units = spec["wish"] == (False,), len(each)
    least = sum(each) * 2 if kept else sum(each) * 3 - each[-1]
    most = sum(each) * (2 if kept else 3)
    sent = [sum(meter["bytes_sent"]) / n, max(meter["bytes_sent"])]
    if sent[1] > 1.01 * most + 64 * n:
        return _too_many(sent[1], each, kept, max(meter["collectives"]))
    calls = (2 if kept else 3) * units - (0 if kept else 1)
    few = min(meter["messages_sent"]) < calls * math.ceil(
        math.log2(n)
    )  # the fewest rounds in which all can have told all
    if sent[0] < 0.99 * least:
        if not few and max(meter["collectives"]) >= calls:
            return "narrow", (
                f"A rank sent {sent[0]:,.0f} bytes in as many collectives as are needed, which take {least:,}: numbers went over the wire with fewer bits than "
                "they came in."
            )
        if not kept and sent[0] >= 0.99 * 2 * sum(each):
            return "kept", (
                f"A rank sent {sent[0]:,.0f} bytes, as if each row were gathered once: {least:,} are needed to gather it again for the backward pass. "
                "Rows were kept, or everything was gathered at once."
            )
        return "too-few-bytes", f"A rank sent {sent[0]:,.0f} bytes; gathering and reducing every unit takes {least:,}."
    if few:
        return "one-giant-unit", (
            f"{min(meter['messages_sent']):,} messages per rank are fewer than {calls} collectives make: units were gathered or reduced together, "
            "so that all of their weights are whole at once."
        )
    return None


def _too_many(sent: float, each: Sequence[int], kept: bool, collectives: int) -> Fault:
    times, units, right = sent / sum(each), len(each), 2 if kept else 3
    asked = f"gathering each unit {'once' if kept else 'twice'} and reducing it once takes {sum(each) * right:,}."
    if right + 0.7 <= times <= right + 1.1 and collectives <= right * units:
        return "all-reduced", (
            f"A rank sent {sent:,.0f} bytes, {times:.2g} times the weights' own: an all-reduce sends twice what a reduce-scatter does. This rank needs "
            "its part of the gradient only."
        )
    if kept and 2.7 <= times <= 3.1:
        return "not-kept", NOT_KEPT
    many = (
        f" These were {collectives} collectives for {units} units; is a row gathered that nobody uses?"
        if collectives > right * units
        else ""
    )
    return "too-many-bytes", f"A rank sent {sent:,.0f} bytes; {asked}{many}"


def _memory_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    held, ahead, most = (
        max(row[name] if is_number(row.get(name)) else 0 for row in results) for name in ("held", "ahead", "bytes")
    )
    if ahead > AHEAD:
        return "too-far-ahead", (
            f"While one unit computed in the forward pass, {ahead:.0f} more were gathered or on their way. The one at work and the next are all that may "
            "be whole: when does the gather of each begin?"
        )
    if held > 1:
        return (
            "rows-lie-around",
            f"While one unit computed, the rows of {held:g} others were still there: who holds on to them?",
        )
    if not most:
        return "not-counted", "The memory of this run could not be counted."
    row = max(Flat({"": count}, n).padded for count in spec["counts"]) * WIDE
    parts = sum(Flat({"": count}, n).part for count in spec["counts"]) * WIDE
    if most - parts <= ROWS * row:
        return None
    return "too-much-memory", (
        f"While a unit computed, a rank held {most - parts:,} bytes beside the parts that it returns, {(most - parts) / row:.3g} rows of a unit. Two "
        "rows of weights, and one or two of gradients on their way, are enough: reduce each gradient when it is there."
    )


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """48 units of 0.8 MB on two ranks: half a row for each unit's part, and `LOOSE` rows; whole ones of all units would be 48.

    `LOOSE` are the 5.5 that the count allows, 3 that a unit's backward makes, 4 of messages on their way, and three fifths more. The parts that are
    given lie over each other.
    """
    coin, ranks, units = coin_of(rng), 2, 48

    def case(name: str, width: int, units: int) -> Case:
        counts = [(width + 1) * width] * units
        places = torch.randint(counts[0] // ranks, (16,), generator=coin)
        spec = {"widths": [width] * (units + 1), "counts": counts, "wish": (), WEIGHED: places}

        def randn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=coin, dtype=torch.float64)

        mine = tuple(
            (spec, randn(TABLE) / width**0.5, randn(SAMPLES, width), randn(SAMPLES, width)) for _ in range(ranks)
        )
        return Case(name=name, ranks=ranks, per_rank=mine, kind="cost", part="memory", visible=False, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        rows = large.per_rank or ()
        spec, owner = rows[0][0], params["owner"]
        tables = [rows[(place - owner) % ranks][1] for place in range(ranks)]
        whole = [
            torch.cat(each)
            for each in zip(*(repeated(table, spec["counts"][0] // ranks, units) for table in tables), strict=True)
        ]
        own = [gradients(spec["widths"], whole, *row[2:]) for row in rows]
        mean = [torch.stack(each).mean(0).view(ranks, -1)[:, spec[WEIGHED]] for each in zip(*own, strict=True)]
        wants = [torch.stack([each[(rank + owner) % ranks] for each in mean]) for rank in range(ranks)]
        got = outcome.value if type(outcome.value) is list else []
        return len(got) == ranks and all(map(alike, got, wants)) and _gathers_fault(large, outcome.meter) is None

    width = 316
    large = case("two ranks, 48 units of 0.8 MB", width, units)
    return Weighed(
        case=large,
        warm=case("two ranks, four small units", 8, 4),
        most=ranks * (units / ranks + LOOSE) * (width + 1) * width * WIDE,
        done=done,
    )


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _values(params, case, outcome.value)
    found = [verdict(case.kind, case.part if case.kind != "cost" else "memory", case, fault)]
    if fault or case.adversary is not None:
        return found
    gathers = _gathers_fault(case, outcome.meter)
    if case.part == "kept":
        return [verdict(case.kind, case.part, case, gathers)]
    if case.kind == "cost":
        found = [verdict("cost", "memory", case, _memory_fault(case, outcome.value))]
    return [*found, verdict("cost", "gathers", case, gathers)]


FSDP = {
    "fsdp-by-hand": Judging(
        shares={
            "values:gradients": 0.25,
            "cost:gathers": 0.2,
            "cost:memory": 0.25,
            "generality:kept": 0.1,
            "generality:ranks": 0.1,
            "protocol:in-flight": 0.1,
        },
        measured_by_worker=("cost:memory",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="A unit's weights matter twice: in its forward and in its backward. In between, a part of them is enough to get them back, so the row goes; the price is one "
        "more all-gather, which makes three times the weights' bytes where data parallelism has two. A gradient is whole only until it has been reduced: each rank "
        "steps its own part, and needs no other.",
        pytorch="`fully_shard(unit)` on each block and on the model; `reshard_after_forward=False` keeps rows, `set_modules_to_forward_prefetch` gathers further ahead.",
    )
}
