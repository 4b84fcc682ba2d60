import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from course_chapters.ch08.exercises.judges.parts import UNKIND, parts_of, stretch
from course_chapters.ch08.exercises.probes import WEIGHED
from course_chapters.ch08.exercises.work import Told
from course_grader.judging import Fault, Judging, Params, Random, Weighed, Worked, first_of, judged, verdict
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.gradients import alike, gradients_fault
from course_grader.judging.ranks import PerRank, on_ranks
from course_grader.judging.tensors import coin_of, normal
from course_grader.judging.traffic import Meter
from course_grader.records import Case, Outcome, Verdict
from course_lib.parallel.sharding import Flat, row_bytes


class Seen(Told):
    """What comes back from a rank."""

    parts: list[Tensor]


right = Worked("fsdp-by-hand")
DTYPE, WIDE = torch.float64, 8  # of a number, and its bytes
SAMPLES = 3
DEEP = [24] * 13  # widths of the run whose memory is counted: many equal units
ROWS = 5.5  # of a unit, while one computes: two of weights, two of gradients, inputs of all units
LOOSE, TABLE = 20, 250  # rows in addition to the parts in the weighed run, and different numbers in each
AHEAD = 1.4  # units: one, and room for other collectives of the answer


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, units, width = coin_of(rng), params["units"], params["width"]
    few = [width, width + 2, width + 1, width]

    def data(ranks: int, widths: Sequence[int] = (), **more: object) -> PerRank:
        """The ranks' arguments: description, shards, x and target."""
        widths = widths or [width + rng.randrange(4) for _ in range(units + 1)]
        counts = [(into + 1) * out for into, out in pairwise(widths)]
        spec = {"widths": list(widths), "counts": counts, "wish": (), **more}
        whole = [normal(coin, count, dtype=DTYPE) * 0.5 for count in counts]
        own = [[normal(coin, SAMPLES, each, dtype=DTYPE) for each in (widths[0], widths[-1])] for _ in range(ranks)]
        shards = zip(*(parts_of(row, ranks, params["owner"]) for row in whole), strict=True)
        return tuple((spec, list(parts), *pair) for parts, pair in zip(shards, own, strict=True))

    return [
        shown(f"four ranks, {units} units", "values:gradients", per_rank=data(4)),
        hidden("three ranks, other data", "values:gradients", per_rank=data(3)),
        hidden("three ranks, rows kept", "generality:kept", per_rank=data(3, wish=(False,))),
        hidden("two ranks, asked to reshard", "generality:kept", per_rank=data(2, few, wish=(True,))),
        hidden("twelve units on four ranks", "cost:memory", per_rank=data(4, DEEP, measured=True)),
        hidden("one rank alone", "generality:ranks", per_rank=data(1, few)),
        hidden("nine ranks, short rows, kept", "generality:ranks", per_rank=data(9, [2, 1, 1, 2, 1], wish=(False,))),
        hidden("a single unit", "generality:ranks", per_rank=data(3, few[:2])),
        *under(UNKIND, "three ranks", "protocol:in-flight", lambda: data(3, few)),
    ]


def _fault(params: Params, case: Case, results: Sequence[Seen]) -> Fault | None:
    wants, parts = ([row["parts"] for row in rows] for rows in (right.value(case), results))
    pairs = enumerate(zip(results, wants, strict=True))
    own = first_of(_row_fault(case, rank, *pair, params["owner"]) for rank, pair in pairs)
    return own or gradients_fault(case, parts, wants.__getitem__, what="part", where=("parts",))


def _row_fault(case: Case, rank: int, row: Seen, want: Sequence[Tensor], owner: int) -> Fault | None:
    """A rank that skipped a unit, used freed weights, or left numbers in its padding."""
    parts, n, counts = row["parts"], case.ranks or 1, (case.per_rank or ())[0][0]["counts"]
    calls = {(what, u) for what in ("forward", "backward") for u in range(len(want))}
    if skipped := calls - {tuple(call) for call in row["order"]}:
        return "skipped", "Rank {} never called {} for unit {}.".format(rank, *max(skipped))
    if case.adversary is None and any(part.is_floating_point() and torch.isnan(part).any() for part in parts):
        told = "A row of weights was used after another unit had computed; by then it was overwritten"
        return "read-after-free", f"Rank {rank}: NaN in its gradients. {told}. Gather it again."
    for u, (got, own, count) in enumerate(zip(parts, want, counts, strict=False)):
        real = len(stretch(count, n, (rank + owner) % n))
        if got.shape == own.shape and got[real:].any() and alike(got[:real], own[:real]):
            return "padding-not-zero", f"Rank {rank}: unit {u}'s numbers are right, but the padding is not zero."
    return None


def _gathers_fault(case: Case, meter: Meter) -> Fault | None:
    (spec, *_), n = (case.per_rank or ())[0], case.ranks or 1
    rows = [row_bytes(count, n, WIDE) for count in spec["counts"]]
    once = spec["wish"] == (False,)
    passes = 2 if once else 3
    calls, whole = passes * len(rows) - (not once), passes * sum(rows)
    least = whole - (0 if once else rows[-1])
    task = f"gathering each unit {'once' if once else 'twice'} and reducing it takes"
    told = f"A rank sent {max(meter['bytes_sent']):,} bytes in {max(meter['collectives'])} collectives"
    if n > 1 and max(meter["bytes_sent"]) > 1.01 * whole + 64 * n:
        return "too-many-bytes", f"{told}; {task} {whole:,} bytes in {passes * len(rows)}."
    if sum(meter["bytes_sent"]) < 0.99 * least * n:
        return "too-few-bytes", f"{told}; {task} {least:,} bytes in {calls}."
    messages = min(meter["messages_sent"])
    if messages < calls * math.ceil(math.log2(n)):  # the fewest rounds in which all data reach all ranks
        told = f"{messages:,} messages per rank are fewer than {calls} collectives make"
        return "one-giant-unit", f"{told}: units were gathered or reduced together, so all weights are whole at once."
    return None


def _memory_fault(case: Case, results: Sequence[Seen]) -> Fault | None:
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
    told = f"a rank held {most - parts:,} bytes more than its parts, {(most - parts) / row:.3g} rows"
    return "too-much-memory", f"While a unit computed, {told}. Four are enough: reduce each gradient at once."


def _weighed(params: Params, rng: Random) -> Weighed:
    """48 units of 0.8 MB on two ranks: half a row per unit for the parts, plus `LOOSE` rows; all whole rows would be
    48.

    `LOOSE` consists of the 5.5 rows allowed, 3 that a unit's backward creates, 4 of messages in transit, and 60 percent
    more. The given parts overlap in memory.
    """
    coin, ranks, units, width = coin_of(rng), 2, 48, 316

    def case(name: str, width: int, units: int) -> Case:
        counts = [(width + 1) * width] * units
        places = torch.randint(counts[0] // ranks, (16,), generator=coin)
        spec = {"widths": [width] * (units + 1), "counts": counts, "wish": (), WEIGHED: places}
        shapes = (TABLE,), (SAMPLES, width), (SAMPLES, width)
        rows = [[normal(coin, *shape, dtype=DTYPE) for shape in shapes] for _ in range(ranks)]
        per_rank = tuple((spec, table / width**0.5, *own) for table, *own in rows)
        return hidden(name, "cost:memory", per_rank=per_rank, seconds=30.0)

    large, warm = case("two ranks, 48 units of 0.8 MB", width, units), case("two ranks, four small units", 8, 4)
    most = ranks * (units / ranks + LOOSE) * (width + 1) * width * WIDE

    def done(outcome: Outcome) -> bool:
        return on_ranks(outcome, right.value(large), alike) and _gathers_fault(large, outcome.meter) is None

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


JUDGING = Judging(
    shares="values:gradients 0.25, cost:gathers 0.2, cost:memory 0.25, generality:kept 0.1, "
    "generality:ranks 0.1, protocol:in-flight 0.1",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=_verdicts,
    why="""A unit's weights are needed twice: in its forward and in its backward pass. In between a rank keeps its part
and frees the row; the price is one more all-gather, three times the weights' bytes instead of the two of data
parallelism. A gradient is whole only until it has been reduced: each rank steps its own part.""",
    pytorch="""`fully_shard(unit)` on each block and on the model; `reshard_after_forward=False` keeps rows,
`set_modules_to_forward_prefetch` gathers further ahead.""",
)

ANSWERS = r'''from course_lib.cluster import AVG
# %% right: worked
owner = params("fsdp-by-hand").owner  # leave as is: rank r holds part (r + owner) mod N


def sharded_step(comm, shards, counts, forward, backward, loss, x, reshard=True):
    """This rank's part of each unit's mean gradient. Budget: two units' weights whole at a time."""

    def turned(row, by):  # parts in the order of ranks, or of the row
        parts = row.view(comm.size, -1)
        return parts.roll(by, 0).flatten() if by else row

    def gather(u):
        row = shards[u].new_empty(comm.size * len(shards[u]))
        comm.all_gather_into_tensor(row, shards[u])
        return turned(row, owner)[: counts[u]]

    def part_of(u, grad):
        row = grad.new_zeros(comm.size * len(shards[u]))
        row[: counts[u]] = grad
        mine = torch.empty_like(shards[u])
        comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
        return mine

    units, inputs, kept = range(len(shards)), [], {}
    for u in units:
        weights = gather(u)
        inputs.append(x)
        x = forward(u, weights, x)
        if not reshard:
            kept[u] = weights
    grad, parts = loss(x), [None] * len(shards)
    for u in reversed(units):
        weights = gather(u) if reshard else kept.pop(u)
        grad, own = backward(u, weights, inputs.pop(), grad)
        parts[u] = part_of(u, own)
    return parts
# %% right: the next unit is gathered ahead, gradients leave behind the next unit
#       def gather(u):
# +         begin(u)
# +         work, row = coming.pop(u)
# +         work.wait()
# +         return turned(row, owner)[: counts[u]]
# +     coming, leaving = {}, []
# +     def begin(u):
# +         if u in coming or u not in range(len(shards)):
# +             return
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return turned(row, owner)[: counts[u]]
# +         coming[u] = comm.all_gather_into_tensor(row, shards[u], async_op=True), row
# -         comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
# +         row = turned(row, -owner)
# +         if leaving:
# +             leaving.pop()[0].wait()
# +         leaving.append((comm.reduce_scatter_tensor(mine, row, op=AVG, async_op=True), row))
#           inputs.append(x)
# +         begin(u + 1)
#           weights = gather(u) if reshard else kept.pop(u)
# +         if reshard:
# +             begin(u - 1)
#           parts[u] = part_of(u, own)
# +     leaving.pop()[0].wait()
# %% right: storages emptied and filled again
#       """This rank's part of each unit's mean gradient. Budget: two units' weights whole at a time."""
# +     rows = [shard.new_empty(comm.size * len(shard)) for shard in shards]
# +     def free(u):
# +         rows[u].untyped_storage().resize_(0)
# +     for u in range(len(shards)):
# +         free(u)
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# +         row = rows[u]
# +         if row.untyped_storage().size() == 0:
# +             row.untyped_storage().resize_(row.numel() * row.element_size())
# +             comm.all_gather_into_tensor(row, shards[u])
# -         if not reshard:
# +         if reshard:
# +             free(u)
# +         else:
#           grad, own = backward(u, weights, inputs.pop(), grad)
# +         free(u)
# %% right: owners broadcast their parts, and sums go to owners
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return turned(row, owner)[: counts[u]]
# +         row = []
# +         for r in range(comm.size):
# +             row.append(shards[u].clone() if r == comm.rank else torch.empty_like(shards[u]))
# +             comm.broadcast(row[r], r)
# +         return turned(torch.cat(row), owner)[: counts[u]]
# -         mine = torch.empty_like(shards[u])
# -         comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
# -         return mine
# +         pieces = [piece.clone() for piece in turned(row, -owner).chunk(comm.size)]
# +         for r, piece in enumerate(pieces):
# +             comm.reduce(piece, r)
# +         return pieces[comm.rank] / comm.size
# %% wrong: everything is gathered in the beginning, in one row => values read-after-free
#           return parts.roll(by, 0).flatten() if by else row
# +     def gathered():
# +         sizes = list(map(len, shards))
# +         row = shards[0].new_empty(comm.size, sum(sizes))
# +         comm.all_gather_into_tensor(row.view(-1), torch.cat(shards))
# +         columns = zip(row.roll(owner, 0).split(sizes, dim=1), counts)
# +         return torch.cat([part.reshape(-1)[:count] for part, count in columns]).split(counts)
# +     rows = gathered()
# -         row = shards[u].new_empty(comm.size * len(shards[u]))
# -         comm.all_gather_into_tensor(row, shards[u])
# -         return turned(row, owner)[: counts[u]]
# +         return rows[u]
# %% wrong: one giant unit, gathered for each pass => cost one-giant-unit  from: everything is gathered in the
# ~~ beginning, in one row
#       grad, parts = loss(x), [None] * len(shards)
# +     if reshard:
# +         del rows, weights
# +         rows = gathered()
# %% wrong: rows lie in a list, though they are gathered again => cost rows-lie-around
# ~ return turned(row, owner)[: counts[u]] ==> everything.append(turned(row, owner)); return everything[-1][: counts[u]]
# ~ kept = range(len(shards)), [], {} ==> kept, everything = range(len(shards)), [], {}, []
# %% wrong: whole gradients wait until the end => cost too-much-memory
#           row[: counts[u]] = grad
# +         return row
# +     def reduced(u, row):
# -     return parts
# +     return [reduced(u, row) for u, row in enumerate(parts)]
# %% wrong: gradients are all-reduced, and a part kept => cost all-reduced
# > Gradients are all-reduced; this rank needs only its part of them.
# -         comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
# +         comm.all_reduce(row, op=AVG)
# +         mine.copy_(turned(row, -owner).chunk(comm.size)[comm.rank])
# %% wrong: reshard is ignored => generality not-kept
# > With `reshard=False` a row is gathered once and kept until its unit's backward pass.
# ~ if not reshard: ==> if False:
# ~ (u) if reshard else kept.pop(u) ==> (u)
# %% wrong: sums, not means => values sum
# > these are sums over ranks; return means.
# ~ , op=AVG ==>
# %% wrong: divided twice => values
# > the means are divided by N once more.
# ~ row[: counts[u]] = grad ==> row[: counts[u]] = grad / comm.size
# %% wrong: nothing is reduced => values own-gradient
# > its own gradients; nothing was reduced.
# ~ comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
# ~~ ==> mine.copy_(turned(row, -owner).chunk(comm.size)[comm.rank])
# %% wrong: own divided => values
# > its own gradients, over N; nothing was reduced.
# ~ comm.reduce_scatter_tensor(mine, turned(row, -owner), op=AVG)
# ~~ ==> mine.copy_(turned(row, -owner).chunk(comm.size)[comm.rank] / comm.size)
# %% wrong: wrong owner => values
# > these are the gradients of another rank's part.
# ~ turned(row, -owner), op ==> turned(row, owner - 1), op
# %% wrong: parts in another order => values mixed-rows
# > rows are joined, and gradients cut, as if other ranks held the parts. Here {{holds}}.
# ~ owner = params("fsdp-by-hand").owner ==> owner = 1 - params("fsdp-by-hand").owner
# %% wrong: gradients stay whole => values whole-gradient
# > this is the whole gradient; return this rank's part.
# -         parts[u] = part_of(u, own)
# +         comm.all_reduce(own, op=AVG)
# +         parts[u] = own
# %% wrong: in the order of the backward pass => values backwards
# > return the parts in the order of the units.
# -     return parts
# +     return parts[::-1]
# %% wrong: the padding is taken for weights => values raised
# ~ turned(row, owner)[: counts[u]] ==> turned(row, owner)
# %% wrong: something in the padding => values padding-not-zero
# ~ grad.new_zeros(comm.size * len(shards[u])) ==> grad.new_full((comm.size * len(shards[u]),), 3.0)
# %% wrong: it does not wait for the row => values ~  from: reshard is ignored
# ~ shards[u].new_empty ==> shards[u].new_zeros
# ~ comm.all_gather_into_tensor(row, shards[u])
# ~~ ==> works.append(comm.all_gather_into_tensor(row, shards[u], async_op=True))
# ~ kept = range(len(shards)), [], {} ==> works = range(len(shards)), [], []
#           parts[u] = part_of(u, own)
# +     for work in works:
# +         work.wait()
# %% wrong: two units gathered ahead => cost too-far-ahead  from: the next unit is gathered ahead, gradients leave
# ~~ behind the next unit
# ~ begin(u + 1) ==> begin(u + 1), begin(u + 2)
# ~ begin(u - 1) ==> begin(u - 1), begin(u - 2)
# %% wrong: weights gathered in 32 bits => cost narrow
# > Weights were sent in 32 bits.
# ~ shards[u].new_empty ==> torch.empty
# ~ (row, shards[u]) ==> (row, shards[u].float())
# ~ turned(row, owner)[: counts[u]] ==> turned(row, owner)[: counts[u]].double()
# %% wrong: gradients cut as evenly as they can be => values uneven-cut
# > cut gradients like weights: parts of ⌈count / N⌉ numbers, the padding last.
# -         row = grad.new_zeros(comm.size * len(shards[u]))
# -         row[: counts[u]] = grad
# +         row = grad.new_zeros(comm.size, len(shards[u]))
# +         for r, piece in enumerate(grad.tensor_split(comm.size)):
# +             row[r, : len(piece)] = piece
# ~ turned(row, -owner) ==> turned(row.view(-1), -owner)
# %% wrong: the backward pass gathers the next unit of the forward pass ahead => cost too-many-bytes  from: the next
# ~~ unit is gathered ahead, gradients leave behind the next unit
# ~ begin(u - 1) ==> begin(u + 1)
# %% wrong: copies of the rows, with the second gather for show => cost rows-lie-around
# -         if not reshard:
# -             kept[u] = weights
# +         kept[u] = weights.clone()
# -         weights = gather(u) if reshard else kept.pop(u)
# -         grad, own = backward(u, weights, inputs.pop(), grad)
# +         if reshard:
# +             gather(u)
# +         grad, own = backward(u, kept[u], inputs.pop(), grad)
'''
