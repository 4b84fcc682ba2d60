"""Judge of chapter 08's resharding: the new parts, what crossed the wire for them, and what lay in memory."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import repeated
from course_lib.judging import Fault, Judging, Params, Weighed, describe, is_number, verdict
from course_lib.judging.ranks import BUFFERS_LATE, LATE, STREAM_LATE, secret
from course_lib.judging.tensors import coin_of, same
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import Flat

WIDE = 4
SLACK = 2048


def stretch(elements: int, ranks: int, rank: int) -> range:
    """The elements that a rank holds; none beyond the ranks that there are."""
    part = -(-elements // ranks)
    return range(min(rank * part, elements), min((rank + 1) * part, elements)) if rank < ranks else range(0)


def parts_of(row: Tensor, ranks: int, world: int) -> list[Tensor]:
    """The padded part of every rank of the world; empty beyond `ranks`."""
    flat = Flat({"": len(row)}, ranks)
    padded = torch.cat([row, row.new_zeros(flat.padded - len(row))])
    return [
        padded[rank * flat.part : (rank + 1) * flat.part].clone() if rank < ranks else row.new_empty(0)
        for rank in range(world)
    ]


def _telling(old: int, new: int, least: int) -> int:
    """So many numbers that padding which is moved along makes other parts."""
    found = (n for n in range(least, least + 200) if -(-(-(-n // old) * old) // new) != -(-n // new))
    return next(found, least + 6)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def case(
        name: str,
        elements: int,
        old: int,
        new: int,
        kind: Any,
        part: str,
        *,
        visible: bool = False,
        adversary: Any = None,
        dtype: torch.dtype = torch.float32,
    ) -> Case:
        world = max(old, new)
        row = secret(coin, elements, dtype=dtype)
        parts = parts_of(row, old, world)
        return Case(
            name=name,
            ranks=world,
            args=(elements, old, new),
            per_rank=tuple((each,) for each in parts),
            kind=kind,
            part=part,
            visible=visible,
            adversary=adversary,
            secret=row,
        )

    old, new = params["old"], params["new"]
    whole = old * new * 5
    telling = _telling(old, new, whole + 1)
    return [
        case(f"{whole} numbers, from {old} ranks to {new}", whole, old, new, "values", "numbers", visible=True),
        case(f"{telling} numbers, so that parts are padded", telling, old, new, "values", "numbers", visible=True),
        case(f"from {new} ranks back to {old}", whole + 1, new, old, "values", "numbers"),
        case("6,003 numbers, from eight ranks to five", 6003, 8, 5, "cost", "memory"),
        case("from three ranks to three", 31, 3, 3, "generality", "sizes"),
        case("from one rank to five", 43, 1, 5, "generality", "sizes"),
        case("from five ranks to one", 43, 5, 1, "generality", "sizes"),
        case("fewer numbers than ranks", 3, 2, 7, "generality", "sizes"),
        case("whole numbers of 64 bits", 50, 2, 3, "generality", "sizes", dtype=torch.int64),
        *(
            case(f"{unkind}", 41, 4, 3, "protocol", "in-flight", adversary=unkind)
            for unkind in (LATE, BUFFERS_LATE, STREAM_LATE)
        ),
    ]


def _values(case: Case, results: Sequence[Any]) -> Fault | None:
    (_, old, new), n, row = case.args, case.ranks or 1, case.secret
    wants, before = parts_of(row, new, n), parts_of(row, old, n)
    for rank, (found, want) in enumerate(zip(results, wants, strict=True)):
        if type(found) is not dict or not is_number(found.get("peak")):
            return "no-part", f"Rank {rank} gave {describe(found)}; its new part is to come."
        got = found["part"]
        if got is None:
            return "returned-none", f"Rank {rank} returned None; a rank without a part returns an empty tensor."
        if not isinstance(got, Tensor) or got.dtype != want.dtype or got.ndim != 1:
            return "not-a-part", f"Rank {rank} returned {describe(got)}; a flat {want.dtype} tensor is to come."
        if torch.equal(got, want):
            continue
        if case.adversary is not None and len(got) == len(want):
            return "in-flight", (
                f"With {case.adversary}, rank {rank}'s part changes: what is under way may be neither read nor written before its `wait()`."
            )
        return _named(case, rank, got, want, before)
    return None


def _named(case: Case, rank: int, got: Tensor, want: Tensor, before: Sequence[Tensor]) -> Fault:
    (elements, _, new), row = case.args, case.secret
    mine = stretch(elements, new, rank)
    if len(got) == len(mine) < len(want) and torch.equal(got, want[: len(got)]):
        return (
            "no-padding",
            f"Rank {rank}: the numbers are right, but parts are equally long: fill up with zeros to {len(want)}.",
        )
    if len(got) == elements and new > 1:
        return "whole-row", f"Rank {rank} returned all {elements} numbers; its part has {len(want)}."
    if torch.equal(got, before[rank]):
        return "old-part", f"Rank {rank} returned its old part."
    padded = torch.cat([each for each in before if len(each)])
    moved = padded[rank * -(-len(padded) // new) :][: -(-len(padded) // new)]
    if len(moved) and torch.equal(got[: len(moved)], moved):
        return (
            "padding-moved",
            f"Rank {rank}: the padding of the old parts was moved as if it were numbers. Only `elements` numbers are the row.",
        )
    if len(got) != len(want):
        return (
            "other-length",
            f"Rank {rank} of {new} returned {len(got)} numbers; its part has {len(want)}, padding included.",
        )
    if torch.equal(got[: len(mine)], want[: len(mine)]):
        return "padding-not-zero", f"Rank {rank}: the numbers are right, the padding behind them is not zero."
    where = int((got != want).nonzero()[0])
    known = (row == got[where]).nonzero()
    told = (
        f"it is number {int(known[0])} of the row"
        if len(known) == 1
        else "it is no number of the row"
        if not len(known)
        else "it is another number"
    )
    return (
        "other-numbers",
        f"Rank {rank}: the first wrong number is at {where} of its part, where number {mine.start + where} of the row belongs; {told}.",
    )


def _bytes_fault(case: Case, meter: Mapping[str, Any]) -> Fault | None:
    (elements, old, new), n = case.args, case.ranks or 1
    width = case.secret.element_size()
    for rank in range(n):
        had, needs = set(stretch(elements, old, rank)), set(stretch(elements, new, rank))
        least, most = len(needs - had) * width, -(-elements // new) * width if rank < new else 0
        got = meter["bytes_received"][rank]
        if got < least:
            return "too-few-bytes", f"Rank {rank} received {got:,} bytes and needs {least:,} that it did not have."
        if got > most + 16 * n + 64:
            whole = elements * width
            if got >= 0.6 * whole * (1 - 1 / max(old, 2)):
                return (
                    "whole-row-moved",
                    f"Rank {rank} received {got:,} bytes; the whole row has {whole:,}, its part {most:,}. Send each rank what it needs.",
                )
            return "too-many-bytes", f"Rank {rank} received {got:,} bytes; its new part has {most:,}."
    return None


def _memory_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    elements, old, new = case.args
    part, mine = -(-elements // old) * WIDE, -(-elements // new) * WIDE
    peak = max(row["peak"] for row in results)
    if peak <= 2 * (part + mine) + SLACK:
        return None
    return "full-copy", (
        f"A rank held {peak:,} bytes beside its old part; the whole row has {elements * WIDE:,}, an old part {part:,} and a new one {mine:,}. No rank needs more "
        "than what it sends and what it gets."
    )


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """A row of 7.8 MB from eight ranks to five: one on each rank is too much.

    A rank may have its old part, the counted two more of old and new ones, and three eighths of a row of messages on their way.
    """
    coin, old, new = coin_of(rng), 8, 5

    def case(name: str, part: int) -> Case:
        places = torch.randint(old * part // new, (64,), generator=coin)
        return Case(
            name=name,
            ranks=old,
            args=(old * part, old, new),
            kind="cost",
            part="memory",
            visible=False,
            seconds=30.0,
            per_rank=tuple(({"table": torch.randn(250, generator=coin), WEIGHED: places},) for _ in range(old)),
        )

    def done(outcome: Outcome) -> bool:
        given = [row[0] for row in large.per_rank or ()]
        row = torch.cat([repeated(each["table"], part, 1)[0] for each in given])
        wants = [(each[given[0][WEIGHED]] if len(each) else each, len(each)) for each in parts_of(row, new, old)]
        pairs = [(stretch(len(row), old, rank), stretch(len(row), new, rank)) for rank in range(old)]
        moved = len(row) - sum(max(0, min(a.stop, b.stop) - max(a.start, b.start)) for a, b in pairs)
        got = outcome.value if type(outcome.value) is list else []
        right = len(got) == old and all(
            type(each) is dict and same(each.get("part"), numbers) and each.get("length") == length
            for each, (numbers, length) in zip(got, wants, strict=True)
        )
        return right and sum(outcome.meter["bytes_received"]) >= moved * WIDE

    part = 245_000
    large, row = case("a row of 7.8 MB, from eight ranks to five", part), old * part * WIDE
    most = old * (1 / old + 2 * (1 / old + 1 / new) + 0.375) * row
    return Weighed(case=large, warm=case("a small row, from eight ranks to five", 500), most=most, done=done)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _values(case, outcome.value)
    if case.kind == "cost":
        return [
            verdict("cost", "memory", case, fault or _memory_fault(case, outcome.value)),
            verdict("cost", "bytes", case, fault or _bytes_fault(case, outcome.meter)),
        ]
    found = [verdict(case.kind, case.part, case, fault)]
    if fault or case.adversary is not None:
        return found
    return [*found, verdict("cost", "bytes", case, _bytes_fault(case, outcome.meter))]


def overlaps(elements: int, old: int, new: int) -> int:
    """How many pairs of an old and a new part share a number."""
    return sum(
        bool(range(max(a.start, b.start), min(a.stop, b.stop)))
        for a in (stretch(elements, old, r) for r in range(old))
        for b in (stretch(elements, new, r) for r in range(new))
    )


def least_bytes(elements: int, old: int, new: int) -> int:
    """Elements that must change their rank."""
    return sum(
        len(set(stretch(elements, new, rank)) - set(stretch(elements, old, rank)))
        for rank in range(math.ceil(max(old, new)))
    )


MOVED = {
    "reshard-checkpoint": Judging(
        shares={
            "values:numbers": 0.3,
            "cost:bytes": 0.25,
            "cost:memory": 0.2,
            "generality:sizes": 0.15,
            "protocol:in-flight": 0.1,
        },
        measured_by_worker=("cost:memory",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="An old part and a new one are two stretches of the same row, so what goes from one rank to another is where they overlap: two numbers, which both ranks can work "
        "out alone. Nobody needs the whole; padding is no part of the row, and belongs to each cut anew.",
        pytorch="`torch.distributed.checkpoint` writes what every rank holds, and works out such overlaps when it is loaded on another mesh.",
    )
}
