"""Judge of all-to-all-sizes: different data for every rank."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.judging import Fault, Judging, Params, judged, ranks
from course_lib.judging.cases import hidden, ranks_text, shown, under
from course_lib.judging.ranks import moved_early, secret
from course_lib.judging.tensors import coin_of, nbytes, same
from course_lib.judging.traffic import Meter, partners, ready_made, too_few_bytes, too_long
from course_lib.records import Case, Outcome, Verdict

COUNT = 8  # bytes in which a rank may tell another how many numbers follow


def _parts(coin: torch.Generator, counts: Sequence[Sequence[int]], dtype: torch.dtype = torch.float32) -> Any:
    return tuple(([secret(coin, count, dtype=dtype) for count in row],) for row in counts)


def _all_to_all_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, longest = coin_of(rng), params["longest"]

    def drawn(n: int) -> list[list[int]]:
        def row(s: int) -> list[int]:
            return [rng.randrange(longest // 2, longest + 1) + 3 * longest * ((s + d) % n == 2) for d in range(n)]

        return [row(s) for s in range(n)]

    hot = [[longest if d == 1 else 0 for d in range(4)] for _ in range(4)]
    sparse = [[longest if (s * 3 + d * 5) % 4 == 0 else 0 for d in range(5)] for s in range(5)]
    cases = [shown("five ranks", "values:rows", per_rank=_parts(coin, drawn(5)))]
    cases += [hidden("four ranks, other data", "values:rows", per_rank=_parts(coin, drawn(4)))]
    cases += [hidden("all data for rank 1", "generality:empty", per_rank=_parts(coin, hot))]
    cases += [hidden("many empty rows", "generality:empty", per_rank=_parts(coin, sparse))]
    cases += [hidden("no data at all", "generality:empty", per_rank=_parts(coin, [[0] * 3] * 3))]
    cases += [hidden("64-bit integers", "generality:ranks", per_rank=_parts(coin, drawn(6), torch.int64))]
    long = _parts(coin, [[0, 40_001, 257], [3, 0, 0], [300, 0, 1]], torch.bfloat16)
    cases += [hidden("bfloat16, and rows of up to 40,001 numbers", "generality:empty", per_rank=long)]
    dtypes = {1: torch.float32, 2: torch.int16, 8: torch.float64, 11: torch.float32}
    cases += [
        hidden(ranks_text(n), "generality:ranks", per_rank=_parts(coin, drawn(n), each)) for n, each in dtypes.items()
    ]
    machines = (ranks.LATE, ranks.BUFFERS_LATE, ranks.STREAM_LATE)
    return cases + under(machines, "three ranks", "protocol:safe", lambda: _parts(coin, drawn(3)))


def _rows_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    given = [parts for (parts,) in case.per_rank or ()]
    n = len(given)
    for rank, got in enumerate(results):
        if len(got) != n:
            return "wrong-shape", f"Rank {rank}: return a list of {n} tensors, one from each rank; got {len(got)}."
        for source, row in enumerate(got):
            if not same(row, given[source][rank]):
                early = moved_early(case, rank) if case.adversary is not None else None
                return early or _row_fault(given, rank, source, row)
    return None


def _row_fault(given: Sequence[Sequence[Tensor]], rank: int, source: int, row: Tensor) -> Fault:
    want = given[source][rank]
    if same(row, given[rank][source]):
        return "kept-own", f"Rank {rank} kept its own row for rank {source}; return rank {source}'s row for it."
    for other in range(len(given)):
        if want.numel() and same(row, given[other][rank]):
            return "wrong-place", f"Rank {rank} has rank {other}'s row at index {source}; order the list by source."
        if row.numel() and same(row, given[source][other]):
            return "wrong-row", f"Rank {rank} returned the row that rank {source} had for rank {other}."
    sizes = f"Rank {rank}'s row from rank {source} has {row.numel()} numbers; it should have {want.numel()}."
    if row.numel() > want.numel() and torch.equal(row.reshape(-1)[: want.numel()], want.to(row.dtype)):
        return "padded", sizes
    if row.numel() < want.numel():
        return "cut-short", sizes
    return "other-numbers", f"Rank {rank}'s row from rank {source} does not hold that rank's numbers."


def _row_bytes(case: Case, meter: Meter) -> Fault | None:
    given = [parts for (parts,) in case.per_rank]
    n = len(given)
    out = [sum(nbytes(row) for d, row in enumerate(parts) if d != s) for s, parts in enumerate(given)]
    into = [sum(nbytes(given[s][d]) for s in range(n) if s != d) for d in range(n)]
    for rank, size in enumerate(out):
        spare = COUNT * n * max(n - 1, 1)  # room for counts, however they are exchanged
        if meter["bytes_sent"][rank] > size + spare:
            times = meter["bytes_sent"][rank] / max(size, 1)
            name = "detour" if any(len(partners(meter, each)) < n - 1 for each in range(n)) else "padded"
            return name, (
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes, {times:.3g} times its rows for other ranks. Send each "
                "number once, directly and without padding."
            )
    return too_few_bytes(meter, out, into)


def _row_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _rows_fault(case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4 * n, "In each round, let every rank send to a different one: rank r to r + k.")
    costs = ("cost", "bytes", _row_bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


JUDGING = Judging(
    shares="values:rows 0.35, cost:bytes 0.15, cost:time 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
    "generality:empty 0.15, generality:ranks 0.1",
    cases=_all_to_all_cases,
    verdicts=_row_verdicts,
    why="First the counts, then the rows. If rank r sends to r + k while r − k sends to r, every rank receives from exactly one other in "
    "each round. If every rank sends to 0, 1, 2 … in that order, all queue at rank 0 first, and without buffers they deadlock.",
    pytorch="`torch.distributed.all_to_all_single` with split sizes, after an exchange of those sizes, as in expert parallelism.",
)

ANSWERS = r"""import torch
from course_lib.cluster import P2POp


def swap(comm, out, to, into, source):
    halves = [P2POp(comm.isend, out, to), P2POp(comm.irecv, into, source)]
    for work in comm.batch_isend_irecv(halves):
        work.wait()


def give(comm, row, to):
    comm.send(torch.tensor([row.numel()]), to)
    comm.send(row, to)


def take(comm, like, source):
    count = torch.zeros(1, dtype=torch.int64)
    comm.recv(count, source)
    row = like.new_empty(int(count))
    comm.recv(row, source)
    return row


# %% right: counts and rows, round by round
def all_to_all(comm, parts):
    n, me = comm.size, comm.rank
    got = [None] * n
    got[me] = parts[me]
    for k in range(1, n):
        to, source = (me + k) % n, (me - k) % n
        count = torch.zeros(1, dtype=torch.int64)
        swap(comm, torch.tensor([parts[to].numel()]), to, count, source)
        got[source] = parts[0].new_empty(int(count))
        swap(comm, parts[to], to, got[source], source)
    return got


# %% right: all counts first, with isend and recv; empty rows stay at home
def all_to_all(comm, parts):
    n, me = comm.size, comm.rank
    counts = [0] * n
    for k in range(1, n):
        to, source = (me + k) % n, (me - k) % n
        work = comm.isend(torch.tensor([len(parts[to])]), to, tag=1)
        told = torch.zeros(1, dtype=torch.int64)
        comm.recv(told, source, tag=1)
        work.wait()
        counts[source] = int(told)
    got = [torch.zeros(count, dtype=parts[0].dtype) for count in counts]
    got[me] = parts[me].clone()
    for k in range(1, n):
        to, source = (me - k) % n, (me + k) % n
        work = comm.isend(parts[to], to, tag=2) if len(parts[to]) else None
        if counts[source]:
            comm.recv(got[source], source, tag=2)
        if work:
            work.wait()
    return got


# %% wrong: a loop of sends first => protocol deadlock
def all_to_all(comm, parts):
    got, others = list(parts), [rank for rank in range(comm.size) if rank != comm.rank]
    for rank in others:
        give(comm, parts[rank], rank)
    for rank in others:
        got[rank] = take(comm, parts[0], rank)
    return got


# %% wrong: assumes equal lengths => values raised  from: counts and rows, round by round
# -         count = torch.zeros(1, dtype=torch.int64)
# -         swap(comm, torch.tensor([parts[to].numel()]), to, count, source)
# -         got[source] = parts[0].new_empty(int(count))
# +         got[source] = torch.empty_like(parts[to])

# %% wrong: pads to the longest and cuts => cost padded  from: counts and rows, round by round
# ~ got = [None] * n ==> got, longest = [None] * n, 400
# -         got[source] = parts[0].new_empty(int(count))
# -         swap(comm, parts[to], to, got[source], source)
# +         padded = parts[to].new_zeros(longest)
# +         padded[: parts[to].numel()] = parts[to]
# +         into = parts[0].new_empty(longest)
# +         swap(comm, padded, to, into, source)
# +         got[source] = into[: int(count)].clone()

# %% wrong: returns the padded rows => values padded  from: counts and rows, round by round
# ~ got = [None] * n ==> got, longest = [None] * n, 400
# ~ count = torch.zeros(1, dtype=torch.int64) ==> padded = parts[to].new_zeros(longest)
# ~ swap(comm, torch.tensor([parts[to].numel()]), to, count, source) ==> padded[: parts[to].numel()] = parts[to]
# ~ int(count) ==> longest
# ~ parts[to], ==> padded,

# %% wrong: hangs where a row is empty => protocol deadlock  from: counts and rows, round by round
# -         swap(comm, parts[to], to, got[source], source)
# +         work = comm.isend(parts[to], to) if parts[to].numel() else None
# +         comm.recv(got[source], source)
# +         if work:
# +             work.wait()

# %% wrong: empty rows come as None => generality returned-none  from: counts and rows, round by round
# -         got[source] = parts[0].new_empty(int(count))
# -         swap(comm, parts[to], to, got[source], source)
# +         into = parts[0].new_empty(int(count))
# +         swap(comm, parts[to], to, into, source)
# +         got[source] = into if int(count) else None

# %% wrong: in the order of arrival => values wrong-place  from: empty rows come as None
# -     got = [None] * n
# -     got[me] = parts[me]
# +     got = [parts[me]]
# ~ got[source] = into if int(count) else None ==> got.append(into)


# %% wrong: keeps what it had => values kept-own
def all_to_all(comm, parts):
    return parts


# %% wrong: everything through rank 0 => cost detour
def all_to_all(comm, parts):
    n = comm.size
    if comm.rank:
        for part in parts:
            give(comm, part, 0)
        return [take(comm, parts[0], 0) for _ in range(n)]
    table = [list(parts)] + [[take(comm, parts[0], rank) for _ in range(n)] for rank in range(1, n)]
    for rank in range(1, n):
        for source in range(n):
            give(comm, table[source][rank], rank)
    return [row[0] for row in table]


# %% wrong: floats whatever comes => generality raised  from: counts and rows, round by round
# ~ parts[0].new_empty ==> torch.empty

# %% wrong: counts in the dtype of the rows => generality -  from: counts and rows, round by round
# ~ dtype=torch.int64 ==> dtype=parts[0].dtype
# ~ torch.tensor([parts[to].numel()]) ==> parts[0].new_tensor([parts[to].numel()])

# %% half: right where nothing is empty => 6.8  from: empty rows come as None

# %% wrong: the first rows of these lengths are kept => values -  from: counts and rows, round by round
# ~ def all_to_all(comm, parts): ==> def all_to_all(comm, parts, kept={}):
# ~ return got ==> return kept.setdefault((me, tuple(map(len, got))), got)
"""
