"""Judge of chapter 08's FSDP by hand: the parts of the gradients, how often units were gathered, and what stayed in memory."""

import math
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from course_lib.exercises.ch08.judges.parts import parts_of, stretch
from course_lib.exercises.ch08.probes import WEIGHED
from course_lib.exercises.ch08.work import repeated
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, judged, verdict
from course_lib.judging.cases import hidden, shown
from course_lib.judging.gradients import alike, gradients_fault
from course_lib.judging.ranks import BUFFERS_LATE, LATE, STREAM_LATE, on_ranks
from course_lib.judging.tensors import coin_of, kind_fault, normal
from course_lib.judging.traffic import Meter
from course_lib.records import Case, Outcome, Verdict
from course_lib.sharding import Flat, row_bytes

DTYPE, WIDE = torch.float64, 8  # of a number, and its bytes
SAMPLES = 3
DEEP = [24] * 13  # widths of the run whose memory is counted: many equal units
ROWS = 5.5  # of a unit, while one computes: two of weights, two of gradients, inputs of all units
LOOSE, TABLE = 20, 250  # rows in addition to the parts in the weighed run, and different numbers in each
AHEAD = 1.4  # units: one, and room for other collectives of the answer


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, units, width, owner = coin_of(rng), params["units"], params["width"], params["owner"]
    few = [width, width + 2, width + 1, width]

    def data(ranks: int, widths: Sequence[int] = (), **more: Any) -> dict[str, Any]:
        """The ranks' arguments: description, shards, x and target. `secret` has the whole rows and all data."""
        widths = widths or [width + rng.randrange(4) for _ in range(units + 1)]
        counts = [(into + 1) * out for into, out in pairwise(widths)]
        spec = {"widths": list(widths), "counts": counts, "wish": (), **more}
        whole = [normal(coin, count, dtype=DTYPE) * 0.5 for count in counts]
        own = [[normal(coin, SAMPLES, each, dtype=DTYPE) for each in (widths[0], widths[-1])] for _ in range(ranks)]
        shards = zip(*(cut(row, ranks, owner) for row in whole), strict=True)
        rows = tuple((spec, list(parts), *pair) for parts, pair in zip(shards, own, strict=True))
        return {"per_rank": rows, "secret": {"whole": whole, "data": own}}

    cases = [
        shown(f"four ranks, {units} units", "values:gradients", **data(4)),
        hidden("three ranks, other data", "values:gradients", **data(3)),
        hidden("three ranks, rows kept", "generality:kept", **data(3, wish=(False,))),
        hidden("two ranks, asked to reshard", "generality:kept", **data(2, few, wish=(True,))),
        hidden("twelve units on four ranks", "cost:memory", **data(4, DEEP, measured=True)),
        hidden("one rank alone", "generality:ranks", **data(1, few)),
        hidden("nine ranks, short rows, kept", "generality:ranks", **data(9, [2, 1, 1, 2, 1], wish=(False,))),
        hidden("a single unit", "generality:ranks", **data(3, few[:2])),
    ]
    unkind, share = (LATE, BUFFERS_LATE, STREAM_LATE), "protocol:in-flight"
    return cases + [hidden(f"three ranks, {each}", share, adversary=each, **data(3, few)) for each in unkind]


def cut(row: Tensor, ranks: int, owner: int = 0) -> list[Tensor]:
    """The part of each rank; rank r holds part r + `owner`, counted around."""
    parts = parts_of(row, ranks)
    return [*parts[owner:], *parts[:owner]]


def gradients(widths: Sequence[int], whole: Sequence[Tensor], x: Tensor, target: Tensor) -> list[Tensor]:
    """The flat gradient of each unit on one rank's data, by autograd."""
    rows = [row.clone().requires_grad_() for row in whole]
    for row, (into, out) in zip(rows, pairwise(widths), strict=True):
        x = torch.tanh(functional.linear(x, row[: into * out].view(out, into), row[into * out :]))
    loss = (x - target).square().sum() / 2 / len(target)
    return list(torch.autograd.grad(loss, rows))


def _of_ranks(widths: Sequence[int], whole: Sequence[Tensor], data: Sequence[Any]) -> list[list[Tensor]]:
    """The gradients of each rank, and the mean over ranks as the last list."""
    own = [gradients(widths, whole, *pair) for pair in data]
    return [*own, [torch.stack(rows).mean(0) for rows in zip(*own, strict=True)]]


def _fault(params: Params, case: Case, results: Sequence[Any]) -> Fault | None:
    (spec, *_), n, secret, owner = (case.per_rank or ())[0], case.ranks or 1, case.secret, params["owner"]
    *own, mean = _of_ranks(spec["widths"], secret["whole"], secret["data"])

    def held(rows: Sequence[Tensor], rank: int, owner: int = owner, times: float = 1.0) -> list[Tensor]:
        return [times * cut(row, n, owner)[rank] for row in rows]

    def evenly(rank: int) -> list[Tensor]:
        """Parts as `tensor_split` cuts them, padded with zeros."""
        parts = [row.tensor_split(n)[(rank + owner) % n] for row in mean]
        return [functional.pad(part, (0, -(-len(row) // n) - len(part))) for row, part in zip(mean, parts, strict=True)]

    for rank, row in enumerate(results):
        if fault := _row_fault(case, rank, row, mean, held(mean, rank), owner):
            return fault
    public = "this solves the public form of the exercise: " if owner else ""
    mixed = mean
    if owner:  # each row joined as if rank r held part r
        rows = [torch.cat(cut(row, n, 1))[: len(row)] for row in secret["whole"]]
        mixed = _of_ranks(spec["widths"], rows, secret["data"])[-1]
    mistakes = [
        Mistake("sum", lambda rank: held(mean, rank, times=n), "these are sums over ranks; return means."),
        Mistake("divided-twice", lambda rank: held(mean, rank, times=1 / n), "the means are divided by N once more."),
        Mistake("own-gradient", lambda rank: held(own[rank], rank), "its own gradients; nothing was reduced."),
        Mistake("own-divided", lambda rank: held(own[rank], rank, times=1 / n), "its own gradients, over N."),
        Mistake(
            "public-form" if owner else "wrong-owner",
            lambda rank: held(mean, rank, 1 - owner),
            f"{public}these are the gradients of another rank's part.",
        ),
        Mistake("public-form", lambda rank: held(mixed, rank, 0), f"{public}rows are joined as if rank r held part r."),
        Mistake("uneven-cut", evenly, "cut gradients like weights: parts of ⌈count / N⌉ numbers, the padding last."),
        Mistake("backwards", lambda rank: held(mean[::-1], rank), "return the parts in the order of the units."),
    ]
    parts = [row["parts"] for row in results]
    return gradients_fault(case, parts, lambda rank: held(mean, rank), mistakes if n > 1 else [], "part")


def _row_fault(
    case: Case, rank: int, row: Mapping[str, Any], mean: Sequence[Tensor], want: Sequence[Tensor], owner: int
) -> Fault | None:
    """A rank that skipped a unit, used freed weights, returned a whole gradient, or left numbers in its padding."""
    parts, n = row["parts"], case.ranks or 1
    if len(parts) != len(mean):
        return "wrong-shape", f"Rank {rank} returned {len(parts)} tensors; return {len(mean)}, one for each unit."
    called = {tuple(call) for call in row["order"]}
    calls = [(what, u) for what in ("forward", "backward") for u in range(len(mean))]
    if skipped := [f"{what} for unit {u}" for what, u in calls if (what, u) not in called]:
        return "skipped", f"Rank {rank} never called {skipped[0]}."
    plain = case.adversary is None
    if plain and any(part.is_floating_point() and torch.isnan(part).any() for part in parts):
        told = "A row of weights was used after another unit had computed; by then it was overwritten"
        return "read-after-free", f"Rank {rank}: NaN in its gradients. {told}. Gather it again."
    sizes = zip(parts, mean, want, strict=True)
    if whole := [u for u, (got, all_, own) in enumerate(sizes) if got.numel() >= len(all_) > len(own)]:
        return "whole-gradient", f"Rank {rank} returned the whole gradient of unit {whole[0]}; return this rank's part."
    counts = [len(stretch(len(all_), n, (rank + owner) % n)) for all_ in mean]
    pairs = [*zip(parts, want, counts, strict=True)]
    if (
        plain
        and not any(kind_fault("", got, own) for got, own, _ in pairs)
        and all(torch.allclose(got[:count], own[:count], rtol=1e-6, atol=1e-9) for got, own, count in pairs)
        and any((got[count:] != 0).any() for got, _, count in pairs)
    ):
        return "padding-not-zero", f"Rank {rank}: the numbers are right, but the padding after them is not zero."
    return None


def _gathers_fault(case: Case, meter: Meter) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    if n == 1:
        return None
    rows = [row_bytes(count, n, WIDE) for count in spec["counts"]]
    kept, units = spec["wish"] == (False,), len(rows)
    passes, calls = (2, 2 * units) if kept else (3, 3 * units - 1)
    least = sum(rows) * passes - (0 if kept else rows[-1])
    sent, most = sum(meter["bytes_sent"]) / n, max(meter["bytes_sent"])
    if most > 1.01 * passes * sum(rows) + 64 * n:
        return _too_many(most, rows, passes, max(meter["collectives"]))
    messages = min(meter["messages_sent"])
    few = messages < calls * math.ceil(math.log2(n))  # the fewest rounds in which all data reach all ranks
    told = f"A rank sent {sent:,.0f} bytes"
    if sent < 0.99 * least:
        if not few and max(meter["collectives"]) >= calls:
            return "narrow", f"{told} in enough collectives, which take {least:,}: numbers were sent with fewer bits."
        if not kept and sent >= 0.99 * 2 * sum(rows):
            return "kept", f"{told}, as if each row were gathered once; with a second gather, {least:,} are needed."
        return "too-few-bytes", f"{told}; gathering and reducing every unit takes {least:,}."
    if few:
        told = f"{messages:,} messages per rank are fewer than {calls} collectives make"
        return "one-giant-unit", f"{told}: units were gathered or reduced together, so all weights are whole at once."
    return None


def _too_many(sent: float, rows: Sequence[int], passes: int, collectives: int) -> Fault:
    times, calls = sent / sum(rows), passes * len(rows)
    told = f"A rank sent {sent:,.0f} bytes"
    if passes + 0.7 <= times <= passes + 1.1 and collectives <= calls:
        return "all-reduced", f"{told}, {times:.2g} times the weights'. This rank needs only its part of the gradient."
    if passes == 2 and 2.7 <= times <= 3.1:
        return "not-kept", "With `reshard=False` a row is gathered once and kept until its unit's backward pass."
    more = f" There were {collectives} collectives for {len(rows)} units; is a gathered row unused?"
    asked = f"gathering each unit {'once' if passes == 2 else 'twice'} and reducing it takes {sum(rows) * passes:,}."
    return "too-many-bytes", f"{told}; {asked}{more if collectives > calls else ''}"


def _memory_fault(case: Case, results: Sequence[Mapping[str, Any]]) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    held, ahead, most = (max(row[name] for row in results) for name in ("held", "ahead", "bytes"))
    if ahead > AHEAD:
        told = f"While one unit computed in the forward pass, {ahead:.0f} more were gathered or in transit"
        return "too-far-ahead", f"{told}. Only the next one may be: when does the gather of each begin?"
    if held > 1:
        return "rows-lie-around", f"While one unit computed, {held:g} other rows still existed. What refers to them?"
    if not most:
        return "not-counted", "The memory of this run could not be counted."
    flats = [Flat({"": count}, n) for count in spec["counts"]]
    row, parts = max(flat.padded for flat in flats) * WIDE, sum(flat.part for flat in flats) * WIDE
    if most - parts <= ROWS * row:
        return None
    held = f"a rank held {most - parts:,} bytes more than its parts, {(most - parts) / row:.3g} rows"
    return "too-much-memory", f"While a unit computed, {held}. Four are enough: reduce each gradient at once."


def _weighed(params: Params, rng: random.Random) -> Weighed:
    """48 units of 0.8 MB on two ranks: half a row per unit for the parts, plus `LOOSE` rows; all whole rows would be 48.

    `LOOSE` consists of the 5.5 rows allowed, 3 that a unit's backward creates, 4 of messages in transit, and 60 percent more.
    The given parts overlap in memory.
    """
    coin, ranks, units = coin_of(rng), 2, 48

    def case(name: str, width: int, units: int) -> Case:
        counts = [(width + 1) * width] * units
        places = torch.randint(counts[0] // ranks, (16,), generator=coin)
        spec = {"widths": [width] * (units + 1), "counts": counts, "wish": (), WEIGHED: places}
        shapes = (TABLE,), (SAMPLES, width), (SAMPLES, width)
        rows = [[normal(coin, *shape, dtype=DTYPE) for shape in shapes] for _ in range(ranks)]
        per_rank = tuple((spec, table / width**0.5, *own) for table, *own in rows)
        return hidden(name, "cost:memory", per_rank=per_rank, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        rows = large.per_rank or ()
        spec, owner = rows[0][0], params["owner"]
        parts = [
            repeated(rows[(place - owner) % ranks][1], spec["counts"][0] // ranks, units) for place in range(ranks)
        ]
        whole = [torch.cat(unit) for unit in zip(*parts, strict=True)]
        mean = _of_ranks(spec["widths"], whole, [row[2:] for row in rows])[-1]
        places = [row.view(ranks, -1)[:, spec[WEIGHED]] for row in mean]
        wants = [torch.stack([row[(rank + owner) % ranks] for row in places]) for rank in range(ranks)]
        return on_ranks(outcome, wants, alike) and _gathers_fault(large, outcome.meter) is None

    width = 316
    large, warm = case("two ranks, 48 units of 0.8 MB", width, units), case("two ranks, four small units", 8, 4)
    most = ranks * (units / ranks + LOOSE) * (width + 1) * width * WIDE
    return Weighed(case=large, warm=warm, most=most, done=done)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _fault(params, case, outcome.value)
    if fault or case.adversary is not None:
        return judged(case, fault)
    gathers = _gathers_fault(case, outcome.meter)
    if case.part == "kept":
        return judged(case, gathers)
    own = _memory_fault(case, outcome.value) if case.kind == "cost" else None
    return [*judged(case, own), verdict("cost", "gathers", case, gathers)]


FSDP = {
    "fsdp-by-hand": Judging(
        shares="values:gradients 0.25, cost:gathers 0.2, cost:memory 0.25, generality:kept 0.1, "
        "generality:ranks 0.1, protocol:in-flight 0.1",
        measured_by_worker=("cost:memory",),
        weighed=_weighed,
        cases=_cases,
        verdicts=_verdicts,
        why="""A unit's weights are needed twice: in its forward and in its backward pass. In between a rank keeps its part and frees the row; the price
is one more all-gather, three times the weights' bytes instead of the two of data parallelism. A gradient is whole only until it has been
reduced: each rank steps its own part.""",
        pytorch="""`fully_shard(unit)` on each block and on the model; `reshard_after_forward=False` keeps rows, `set_modules_to_forward_prefetch`
gathers further ahead.""",
    )
}
