import torch
from torch import Tensor

from course_chapters.ch08.exercises.judges.parts import UNKIND, parts_of, stretch
from course_chapters.ch08.exercises.probes import WEIGHED
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Weighed, Worked, oracle
from course_grader.judging.cases import Maker, hidden, shown
from course_grader.judging.ranks import on_ranks, over_ranks, secret
from course_grader.judging.tensors import coin_of, same_data

right = Worked("reshard-checkpoint")
WIDE = 4  # bytes of an element in the cases whose memory counts
SLACK = 2048


def parts_in(row: Tensor, ranks: int, world: int) -> list[Tensor]:
    """The part of every rank of the world; empty beyond `ranks`."""
    return parts_of(row, ranks) + [row.new_empty(0)] * (world - ranks)


def missing(elements: int, old: int, new: int, rank: int) -> int:
    """How many elements of its new part are not in a rank's old part."""
    return len({*stretch(elements, new, rank)} - {*stretch(elements, old, rank)})


def _padding_shows(old: int, new: int, least: int) -> int:
    """A number of elements for which moving the padding changes the parts."""
    counts = (n for n in range(least, least + 200) if -(-(-(-n // old) * old) // new) != -(-n // new))
    return next(counts, least + 6)


def _cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def case(
        make: Maker, name: str, share: str, *sizes: int, dtype: torch.dtype = torch.float32, **more: object
    ) -> Case:
        elements, old, new = sizes
        parts = parts_in(secret(coin, elements, dtype=dtype), old, max(old, new))
        return make(name, share, *sizes, per_rank=tuple((part,) for part in parts), **more)

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
        *(case(hidden, f"{each}", "protocol:in-flight", 41, 4, 3, adversary=each) for each in UNKIND),
    ]


def _part_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    results, wants = ([result["part"] for result in each] for each in (outcome.value, right.value(case)))
    fault = over_ranks(case, results, wants, where=("part",))
    return fault or (_memory_fault(case, outcome) if case.kind == "cost" else None)


def _bytes_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    (elements, old, new), n = case.args, case.ranks or 1
    width = (case.per_rank or ())[0][0].element_size()
    for rank, got in enumerate(outcome.meter["bytes_received"]):
        least, most = missing(elements, old, new, rank) * width, -(-elements // new) * width if rank < new else 0
        told = f"Rank {rank} received {got:,} bytes"
        if got < least:
            return "too-few-bytes", f"{told}, and needs {least:,} that it did not have."
        if got > most + 16 * n + 64:
            return "too-many-bytes", f"{told}; its new part has {most:,}, and the whole row {elements * width:,}."
    return None


def _memory_fault(case: Case, outcome: Outcome) -> Fault | None:
    elements, old, new = case.args
    part, mine = -(-elements // old) * WIDE, -(-elements // new) * WIDE
    peak = max(row["peak"] for row in outcome.value)
    if peak <= 2 * (part + mine) + SLACK:
        return None
    sizes = f"the whole row has {elements * WIDE:,}, an old part {part:,} and a new one {mine:,}"
    return "full-copy", f"A rank held {peak:,} bytes in addition to its old part; {sizes}."


def _weighed(params: Params, rng: Random) -> Weighed:
    """A row of 7.8 MB from eight ranks to five: a whole row on each rank is too much.

    A rank may hold its old part, twice an old and a new part, and three eighths of a row of messages in transit.
    """
    coin, old, new, part = coin_of(rng), 8, 5, 245_000

    def case(name: str, part: int) -> Case:
        places = torch.randint(old * part // new, (64,), generator=coin)
        per_rank = tuple(({"table": torch.randn(250, generator=coin), WEIGHED: places},) for _ in range(old))
        return hidden(name, "cost:memory", old * part, old, new, per_rank=per_rank, seconds=30.0)

    def done(outcome: Outcome) -> bool:
        moved = on_ranks(outcome, right.value(large), same_data)
        return moved and sum(outcome.meter["bytes_received"]) >= least_bytes(*large.args) * WIDE

    large, row = case("a row of 7.8 MB, from eight ranks to five", part), old * part * WIDE
    most = old * (1 / old + 2 * (1 / old + 1 / new) + 0.375) * row
    return Weighed(case=large, warm=case("a small row, from eight ranks to five", 500), most=most, done=done)


def least_bytes(elements: int, old: int, new: int) -> int:
    return sum(missing(elements, old, new, rank) for rank in range(max(old, new)))


JUDGING = Judging(
    shares="values:numbers 0.3, cost:bytes 0.25, cost:memory 0.2, generality:sizes 0.15, protocol:in-flight 0.1",
    point=("cost:memory",),
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=oracle(_part_fault, {"cost:bytes": _bytes_fault}),
    why="""An old part and a new one are two stretches of the same row, and a rank sends another what their stretches
share. Both ranks can compute that alone. No rank needs the whole row; padding is not part of the row, and each cut adds
its own.""",
    pytorch="`torch.distributed.checkpoint` saves what every rank holds, and computes such overlaps when it loads on "
    "another mesh.",
)

ANSWERS = r'''# %% right: worked
def reshard(comm, part, elements, old, new):
    """This rank's new part. Budget: no rank receives more than that, or holds the whole row."""

    def stretch(ranks, rank):
        size = -(-elements // ranks)
        return (min(rank * size, elements), min((rank + 1) * size, elements)) if rank < ranks else (0, 0)

    def overlap(a, b):
        (low, high), (first, last) = stretch(old, a), stretch(new, b)
        return max(0, min(high, last) - max(low, first))

    me, ranks = comm.rank, range(comm.size)
    send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
    mine = part.new_zeros(-(-elements // new) if me < new else 0)
    comm.all_to_all_single(mine[: sum(take)], part[: sum(send)].contiguous(), take, send)
    return mine
# %% right: blocking messages, all pairs in one order
def reshard(comm, part, elements, old, new):
    size, fresh, me = -(-elements // old), -(-elements // new), comm.rank
    mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
    for a in range(old):
        for b in range(new):
            low, high = max(a * size, b * fresh), min((a + 1) * size, (b + 1) * fresh, elements)
            if low >= high or me not in (a, b):
                continue
            piece, box = part[low - a * size : high - a * size], mine[low - b * fresh : high - b * fresh]
            if a == b:
                box.copy_(piece)
            elif me == a:
                comm.send(piece, b)
            else:
                comm.recv(box, a)
    return mine
# %% right: messages started together  from: blocking messages, all pairs in one order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     works = []
# ~ comm.send(piece, b) ==> works.append(comm.isend(piece, b))
# ~ comm.recv(box, a) ==> works.append(comm.irecv(box, a))
# +     for work in works:
# +         work.wait()
# %% wrong: a table with an owner for every number => cost full-copy
# -     send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
# +     place = torch.arange(elements)
# +     of_old, of_new = place // -(-elements // old), place // -(-elements // new)
# +     send = torch.bincount(of_new[of_old == me], minlength=comm.size).tolist()
# +     take = torch.bincount(of_old[of_new == me], minlength=comm.size).tolist()
# +     del place, of_old, of_new
# %% wrong: the whole row on every rank => cost ~
# -     comm.all_to_all_single(mine[: sum(take)], part[: sum(send)].contiguous(), take, send)
# +     size = -(-elements // old)
# +     row = part.new_empty(comm.size * size)
# +     comm.all_gather_into_tensor(row, part if me < old else part.new_zeros(size))
# +     row = row[:elements]
# +     own = row[me * len(mine) : (me + 1) * len(mine)]
# +     mine[: len(own)] = own
# %% wrong: the whole row comes back => values whole-row  from: the whole row on every rank
# > this is the whole row; a rank returns its part.
# ~ return mine ==> return row
# %% wrong: sends first, each waiting for its receiver => protocol deadlock  from: blocking messages, all pairs in one
# ~~ order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     boxes = []
# ~ comm.recv(box, a) ==> boxes.append((box, a))
# +     for box, a in boxes:
# +         comm.recv(box, a)
# %% wrong: the padding is moved as numbers => values padding-moved  from: the whole row on every rank
# > the padding of the old parts was moved as well. Only `elements` numbers are the row.
# ~ part.new_zeros(-(-elements // new) if ==> part.new_zeros(-(-(-(-elements // old) * old) // new) if
# ~ row[:elements] ==> row[: size * old]
# %% wrong: parts of different lengths, without padding => values no-padding
# > the numbers are right, but the padding is missing: all parts have one length, with zeros at the end.
# ~ new_zeros(-(-elements // new) if me < new else 0) ==> new_empty(sum(take))
# ~ mine[: sum(take)], ==> mine,
# %% wrong: the padding is whatever lay there => values padding-not-zero
# > the numbers are right, but the padding after them is not zero.
# ~ new_zeros(-(-elements // new) if me < new else 0) ==> new_full((-(-elements // new) if me < new else 0,), 7)
# %% wrong: sizes rounded down => values  from: blocking messages, all pairs in one order
# > the parts' size was rounded down, so the last numbers are in no part.
# ~ -(-elements // old), -(-elements // new) ==> elements // old, elements // new
# %% wrong: the old part comes back => values old-part
# > this is the old part.
# ~ return mine ==> return part
# %% wrong: dealt out like tensor_split, the larger parts first => values tensor-split  from: the whole row on every
# ~~ rank
# > the row is cut as `tensor_split` cuts it, the larger parts first; here all parts have one length, with padding at
# > the end.
# ~ row[me * len(mine) : (me + 1) * len(mine)] ==> row.tensor_split(new)[me] if me < new else row[:0]
# %% wrong: the ranks that have nothing stay out of it => deadlock  from: the whole row on every rank
#       mine = part.new_zeros(-(-elements // new) if me < new else 0)
# +     if not len(part):
# +         return mine
# %% wrong: always float32 => generality ~
# ~ part.new_zeros ==> torch.zeros
# ~ contiguous ==> float
# %% wrong: it returns before the messages have come => values ~  from: blocking messages, all pairs in one order
#       mine = torch.zeros(fresh if me < new else 0, dtype=part.dtype)
# +     scratch = []
# ~ comm.send(piece, b) ==> comm.isend(piece, b).wait()
# -                 comm.recv(box, a)
# +                 scratch.append((box, torch.zeros_like(box)))
# +                 comm.irecv(scratch[-1][1], a)
# +     for box, came in scratch:
# +         box.copy_(came)
# %% wrong: round a ring until it is home => cost whole-row-moved
# > Whole parts go around all ranks. Send each rank only what it needs.
# -     send, take = [overlap(me, b) for b in ranks], [overlap(a, me) for a in ranks]
# +     row = part.new_zeros(-(-elements // old))
# +     row[: len(part)] = part
# -     comm.all_to_all_single(mine[: sum(take)], part[: sum(send)].contiguous(), take, send)
# +     for source in [(me - step) % comm.size for step in ranks]:
# +         start, home = stretch(old, source)[0], stretch(new, me)[0]
# +         if count := overlap(source, me):
# +             low = max(start, home)
# +             mine[low - home : low - home + count] = row[low - start : low - start + count]
# +         came = torch.empty_like(row)
# +         works = comm.isend(row, (me + 1) % comm.size), comm.irecv(came, (me - 1) % comm.size)
# +         for work in works:
# +             work.wait()
# +         row = came
# %% wrong: ranks without a part return zeros => values another-kind
# ~ (-elements // new) if me < new else 0 ==> (-elements // new)
# %% wrong: counts are remembered by ranks => values -
# ~ def reshard(comm, part, elements, old, new): ==> def reshard(comm, part, elements, old, new, kept={}):
# ~ for a in ranks] ==> for a in ranks]; send, take = kept.setdefault((me, old, new), (send, take))
'''
