"""Judge of chapter 08's resharding: the new parts, the bytes that moved, and the memory in between."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch08.judges.parts import parts_of, stretch
from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import repeated
from course_lib.exercises.values import same_lists
from course_lib.judging import Fault, Judging, Params, Weighed, judged, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.judging.gradients import in_flight
from course_lib.judging.ranks import BUFFERS_LATE, LATE, STREAM_LATE, on_ranks, secret
from course_lib.judging.tensors import coin_of, kind_text, same
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict

WIDE = 4  # bytes of an element in the cases whose memory counts
SLACK = 2048


def parts_in(row: Tensor, ranks: int, world: int) -> list[Tensor]:
    """The part of every rank of the world; empty beyond `ranks`."""
    return parts_of(row, ranks) + [row.new_empty(0)] * (world - ranks)


def missing(elements: int, old: int, new: int, rank: int) -> int:
    """How many elements of its new part are not in a rank's old part."""
    had, needs = stretch(elements, old, rank), stretch(elements, new, rank)
    return len(needs) - max(0, min(had.stop, needs.stop) - max(had.start, needs.start))


def _padding_shows(old: int, new: int, least: int) -> int:
    """A number of elements for which moving the padding changes the parts."""
    counts = (n for n in range(least, least + 200) if -(-(-(-n // old) * old) // new) != -(-n // new))
    return next(counts, least + 6)


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def case(make: Any, name: str, share: str, *sizes: int, dtype: Any = torch.float32, **more: Any) -> Case:
        elements, old, new = sizes
        row = secret(coin, elements, dtype=dtype)
        parts = tuple((part,) for part in parts_in(row, old, max(old, new)))
        return make(name, share, *sizes, per_rank=parts, secret=row, **more)

    old, new = params["old"], params["new"]
    whole = old * new * 5
    padded = _padding_shows(old, new, whole + 1)
    return [
        case(shown, f"{whole} numbers, from {old} ranks to {new}", "values:numbers", whole, old, new),
        case(shown, f"{padded} numbers, so that parts are padded", "values:numbers", padded, old, new),
        case(hidden, f"from {new} ranks back to {old}", "values:numbers", whole + 1, new, old),
        case(hidden, "6,003 numbers, from eight ranks to five", "cost:memory", 6003, 8, 5),
        case(hidden, "from three ranks to three", "generality:sizes", 31, 3, 3),
        case(hidden, "from one rank to nine", "generality:sizes", 43, 1, 9),
        case(hidden, "from five ranks to one", "generality:sizes", 43, 5, 1),
        case(hidden, "fewer numbers than ranks", "generality:sizes", 3, 2, 11),
        case(hidden, "64-bit integers", "generality:sizes", 50, 2, 3, dtype=torch.int64),
        *(
            case(hidden, f"{each}", "protocol:in-flight", 41, 4, 3, adversary=each)
            for each in (LATE, BUFFERS_LATE, STREAM_LATE)
        ),
    ]


def _part_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    (_, old, new), n, row = case.args, case.ranks or 1, case.secret
    wants, before = parts_in(row, new, n), parts_in(row, old, n)
    for rank, (result, want) in enumerate(zip(results, wants, strict=True)):
        got = result["part"]
        if got.dtype != want.dtype or got.ndim != 1:
            return "not-a-part", f"Rank {rank}: return a flat tensor of {want.dtype}; got {kind_text(got)}."
        if torch.equal(got, want):
            continue
        if case.adversary is not None and len(got) == len(want):
            return in_flight(case, rank)
        name, message = _named(case, rank, got, want, before)
        return name, f"Rank {rank}: {message}"
    return None


def _named(case: Case, rank: int, got: Tensor, want: Tensor, before: Sequence[Tensor]) -> Fault:
    (elements, _, new), row = case.args, case.secret
    mine = stretch(elements, new, rank)
    if len(got) == len(mine) < len(want) and torch.equal(got, want[: len(got)]):
        return "no-padding", f"the numbers are right; pad them with zeros to {len(want)}."
    if len(got) == elements and new > 1:
        return "whole-row", f"these are all {elements} numbers; the part has {len(want)}."
    if torch.equal(got, before[rank]):
        return "old-part", "this is the old part."
    padded = torch.cat([part for part in before if len(part)])
    moved = padded[rank * -(-len(padded) // new) :][: -(-len(padded) // new)]
    if len(moved) and torch.equal(got[: len(moved)], moved):
        return "padding-moved", "the padding of the old parts was moved as well. Only `elements` numbers are the row."
    if len(got) != len(want):
        return "other-length", f"got {len(got)} numbers; the part has {len(want)}, padding included."
    if torch.equal(got[: len(mine)], want[: len(mine)]):
        return "padding-not-zero", "the numbers are right, but the padding after them is not zero."
    where = int((got != want).nonzero()[0])
    known = (row == got[where]).nonzero()
    names = {0: "a number that is not in the row", 1: f"number {int(known[0])} of the row" if len(known) else ""}
    told = names.get(len(known), "another number")
    return "other-numbers", f"number {mine.start + where} of the row belongs at {where} of this part; {told} is there."


def _bytes_fault(case: Case, meter: Meter) -> Fault | None:
    (elements, old, new), n = case.args, case.ranks or 1
    width = case.secret.element_size()
    for rank in range(n):
        least, most = missing(elements, old, new, rank) * width, -(-elements // new) * width if rank < new else 0
        got, whole = meter["bytes_received"][rank], elements * width
        told = f"Rank {rank} received {got:,} bytes"
        if got < least:
            return "too-few-bytes", f"{told}, and needs {least:,} that it did not have."
        if got > most + 16 * n + 64:
            if got >= 0.6 * whole * (1 - 1 / max(old, 2)):
                return "whole-row-moved", f"{told}; the whole row has {whole:,}, its part {most:,}. Send only that."
            return "too-many-bytes", f"{told}; its new part has {most:,}."
    return None


def _memory_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    elements, old, new = case.args
    part, mine = -(-elements // old) * WIDE, -(-elements // new) * WIDE
    peak = max(row["peak"] for row in results)
    if peak <= 2 * (part + mine) + SLACK:
        return None
    sizes = f"the whole row has {elements * WIDE:,}, an old part {part:,} and a new one {mine:,}"
    return "full-copy", f"A rank held {peak:,} bytes in addition to its old part; {sizes}."


def _picked(got: Any, want: Tensor, places: Tensor) -> bool:
    """Whether a rank's result has the length of its part, and the numbers of the part at these places."""
    numbers = want[places] if len(want) else want
    return type(got) is dict and same(got.get("part"), numbers) and same_lists(got.get("length"), len(want))


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """A row of 7.8 MB from eight ranks to five: a whole row on each rank is too much.

    A rank may hold its old part, twice an old and a new part, and three eighths of a row of messages in transit.
    """
    coin, old, new = coin_of(rng), 8, 5

    def case(name: str, part: int) -> Case:
        places = torch.randint(old * part // new, (64,), generator=coin)
        per_rank = tuple(({"table": torch.randn(250, generator=coin), WEIGHED: places},) for _ in range(old))
        return hidden(name, "cost:memory", old * part, old, new, per_rank=per_rank, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        given = [row[0] for row in large.per_rank or ()]
        row = torch.cat([repeated(own["table"], part, 1)[0] for own in given])
        right = on_ranks(outcome, parts_in(row, new, old), lambda got, want: _picked(got, want, given[0][WEIGHED]))
        return right and sum(outcome.meter["bytes_received"]) >= least_bytes(len(row), old, new) * WIDE

    part = 245_000
    large, row = case("a row of 7.8 MB, from eight ranks to five", part), old * part * WIDE
    most = old * (1 / old + 2 * (1 / old + 1 / new) + 0.375) * row
    return Weighed(case=large, warm=case("a small row, from eight ranks to five", 500), most=most, done=done)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, sent = _part_fault(case, outcome.value), _bytes_fault(case, outcome.meter)
    if case.kind == "cost":
        memory = fault or _memory_fault(case, outcome.value)
        return [verdict("cost", "memory", case, memory), verdict("cost", "bytes", case, fault or sent)]
    return judged(case, fault, *[] if case.adversary is not None else [("cost", "bytes", sent)])


def least_bytes(elements: int, old: int, new: int) -> int:
    """The number of elements that must move to another rank."""
    return sum(missing(elements, old, new, rank) for rank in range(max(old, new)))


MOVED = {
    "reshard-checkpoint": Judging(
        shares="values:numbers 0.3, cost:bytes 0.25, cost:memory 0.2, generality:sizes 0.15, protocol:in-flight 0.1",
        measured_by_worker=("cost:memory",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="""An old part and a new one are two stretches of the same row, and a rank sends another what their stretches share. Both ranks can
compute that alone. No rank needs the whole row; padding is not part of the row, and each cut adds its own.""",
        pytorch="`torch.distributed.checkpoint` saves what every rank holds, and computes such overlaps when it loads on another mesh.",
    )
}
