from collections.abc import Sequence

import torch
from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Wrong, judged, ranks
from course_grader.judging.cases import hidden, ranks_text, shown, under
from course_grader.judging.ranks import PerRank, moved_early, secret
from course_grader.judging.tensors import coin_of, nbytes, same
from course_grader.judging.traffic import Meter, partners, ready_made, too_few_bytes, too_long

COUNT = 8  # bytes in which a rank may tell another how many numbers follow


def _parts(coin: torch.Generator, counts: Sequence[Sequence[int]], dtype: torch.dtype = torch.float32) -> PerRank:
    return tuple(([secret(coin, count, dtype=dtype) for count in row],) for row in counts)


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, longest = coin_of(rng), params["longest"]

    def drawn(n: int) -> list[list[int]]:
        def row(s: int) -> list[int]:
            return [rng.randrange(longest // 2, longest + 1) + 3 * longest * ((s + d) % n == 2) for d in range(n)]

        return [row(s) for s in range(n)]

    hot = [[longest if d == 1 != s else 0 for d in range(4)] for s in range(4)]  # rank 1 has only empty rows itself
    sparse = [[longest if (s * 3 + d * 5) % 4 == 0 else 0 for d in range(5)] for s in range(5)]
    cases = [shown("five ranks", "values:rows", per_rank=_parts(coin, drawn(5)))]
    cases += [hidden("four ranks, other data", "values:rows", per_rank=_parts(coin, drawn(4)))]
    cases += [hidden("all data of three ranks for rank 1", "generality:empty", per_rank=_parts(coin, hot, torch.int64))]
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


def _fault(case: Case, results: Sequence[Sequence[Tensor]]) -> Fault | None:
    n, given = len(results), [parts for (parts, *_) in case.per_rank or ()]
    for rank, got in enumerate(results):
        want = [parts[rank] for parts in given]
        if len(got) != n:
            return "wrong-shape", f"Rank {rank}: return a list of {n} tensors, one from each rank; got {len(got)}."
        for source, (row, wanted) in enumerate(zip(got, want, strict=True)):
            if same(row, wanted):
                continue
            if case.adversary is not None:
                return moved_early(case, rank)
            words = f"Rank {rank}'s row from rank {source} "
            if row.numel() != wanted.numel():
                words += f"has {row.numel()} numbers; it should have {wanted.numel()}."
            else:
                words += "does not hold that rank's numbers."
            return Wrong("other-numbers", words, f"Rank {rank}'s row from rank {source}: ")
    return None


def _bytes(case: Case, meter: Meter) -> Fault | None:
    given = [parts for (parts,) in case.per_rank or ()]
    n = len(given)
    out = [sum(nbytes(row) for d, row in enumerate(parts) if d != s) for s, parts in enumerate(given)]
    into = [sum(nbytes(given[s][d]) for s in range(n) if s != d) for d in range(n)]
    for rank, size in enumerate(out):
        spare = COUNT * n * max(n - 1, 1)  # room for counts, however they are exchanged
        if meter["bytes_sent"][rank] > size + spare:
            times = meter["bytes_sent"][rank] / max(size, 1)
            name = "detour" if any(len(partners(meter, each)) < n - 1 for each in range(n)) else "padded"
            return name, (
                f"Rank {rank} sent {meter['bytes_sent'][rank]:,} bytes, {times:.3g} times its rows for other ranks. "
                "Send each number once, directly and without padding."
            )
    return too_few_bytes(meter, out, into)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault, meter, n = _fault(case, outcome.value), outcome.meter, case.ranks or 1
    if case.adversary is not None:
        return judged(case, fault)
    late = too_long(meter, 4 * n, "In each round, let every rank send to a different one: rank r to r + k.")
    costs = ("cost", "bytes", _bytes(case, meter)), ("cost", "time", late)
    return judged(case, fault, *costs, ("protocol", "by-hand", ready_made(meter)))


JUDGING = Judging(
    shares="values:rows 0.35, cost:bytes 0.15, cost:time 0.1, protocol:by-hand 0.05, protocol:safe 0.1, "
    "generality:empty 0.15, generality:ranks 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="First the counts, then the rows. If rank r sends to r + k while r − k sends to r, every rank receives from "
    "exactly one other in each round. If every rank sends to 0, 1, 2 … in that order, all queue at rank 0 first, "
    "and without buffers they deadlock.",
    pytorch="`torch.distributed.all_to_all_single` with split sizes, after an exchange of those sizes, as in expert "
    "parallelism.",
)

ANSWERS = r'''# %% right: worked
def all_to_all(comm, parts):
    """The N rows for this rank, in the order of their sources. Budget: every number is sent once."""
    n, me = comm.size, comm.rank

    def swap(outgoing, to, incoming, source):
        halves = [P2POp(comm.isend, outgoing, to), P2POp(comm.irecv, incoming, source)]
        for work in comm.batch_isend_irecv(halves):
            work.wait()

    got = [parts[me]] * n
    for k in range(1, n):
        to, source = (me + k) % n, (me - k) % n
        count = torch.zeros(1, dtype=torch.int64)
        swap(torch.tensor([parts[to].numel()]), to, count, source)
        got[source] = parts[0].new_empty(int(count))
        swap(parts[to], to, got[source], source)
    return got
# %% right: with isend and recv; empty rows stay at home
# -         swap(parts[to], to, got[source], source)
# +         work = comm.isend(parts[to], to, tag=2) if len(parts[to]) else None
# +         if count:
# +             comm.recv(got[source], source, tag=2)
# +         if work:
# +             work.wait()
# %% wrong: a loop of sends first => protocol deadlock
# -         to, source = (me + k) % n, (me - k) % n
# +         comm.send(torch.tensor([parts[(me + k) % n].numel()]), (me + k) % n)
# +         comm.send(parts[(me + k) % n], (me + k) % n)
# +     for k in range(1, n):
# +         source = (me - k) % n
# -         swap(torch.tensor([parts[to].numel()]), to, count, source)
# +         comm.recv(count, source)
# ~ swap(parts[to], to, got[source], source) ==> comm.recv(got[source], source)
# %% wrong: assumes equal lengths => values raised
# -         count = torch.zeros(1, dtype=torch.int64)
# -         swap(torch.tensor([parts[to].numel()]), to, count, source)
# -         got[source] = parts[0].new_empty(int(count))
# +         got[source] = torch.empty_like(parts[to])
# %% wrong: pads to the longest and cuts => cost padded
# -         got[source] = parts[0].new_empty(int(count))
# -         swap(parts[to], to, got[source], source)
# +         padded, into = parts[to].new_zeros(400), parts[0].new_empty(400)
# +         padded[: parts[to].numel()] = parts[to]
# +         swap(padded, to, into, source)
# +         got[source] = into[: int(count)].clone()
# %% wrong: returns the padded rows => values padded-rows
# > this row ends in padding; return only the numbers that the other rank has for this one.
# -         got[source] = parts[0].new_empty(int(count))
# -         swap(parts[to], to, got[source], source)
# +         padded, got[source] = parts[to].new_zeros(400), parts[0].new_empty(400)
# +         padded[: parts[to].numel()] = parts[to]
# +         swap(padded, to, got[source], source)
# %% wrong: hangs where a row is empty => protocol deadlock
# -         swap(parts[to], to, got[source], source)
# +         work = comm.isend(parts[to], to) if parts[to].numel() else None
# +         comm.recv(got[source], source)
# +         if work:
# +             work.wait()
# %% wrong: empty rows come as None => generality returned-none
#           swap(parts[to], to, got[source], source)
# +         got[source] = got[source] if int(count) else None
# %% wrong: in the order of arrival => values wrong-place
# > the rows are in the order in which they arrived; order them by their source.
# ~ got = [parts[me]] * n ==> got, rows = [parts[me]] * n, [parts[me]]
#           swap(parts[to], to, got[source], source)
# +         rows.append(got[source])
# ~ return got ==> return rows
# %% wrong: keeps what it had => values kept-own
# > these are the rows that this rank had for the others; return what the others had for it.
# ~ return got ==> return parts
# %% wrong: another rank's row => values wrong-row
# > these are the rows that the others had for the next rank; return those that they had for this one.
# ~ [to].numel ==> [(to + 1) % n].numel
# ~ parts[to], ==> parts[(to + 1) % n],
# %% wrong: rows cut to the shortest => values cut-short
# > this row lacks its end: every row has a length of its own.
# ~ return got ==> return [row[: min(map(len, got))] for row in got]
# %% wrong: all rows go round a ring => cost detour
# ~ got = [parts[me]] * n ==> got, held = [parts[me]] * n, list(parts)
# -         count = torch.zeros(1, dtype=torch.int64)
# -         swap(torch.tensor([parts[to].numel()]), to, count, source)
# -         got[source] = parts[0].new_empty(int(count))
# -         swap(parts[to], to, got[source], source)
# +         for at, row in enumerate(held):
# +             count = torch.zeros(1, dtype=torch.int64)
# +             swap(torch.tensor([row.numel()]), (me + 1) % n, count, (me - 1) % n)
# +             held[at] = parts[0].new_empty(int(count))
# +             swap(row, (me + 1) % n, held[at], (me - 1) % n)
# +         got[source] = held[me]
# %% wrong: floats whatever comes => generality raised
# ~ parts[0].new_empty ==> torch.empty
# %% wrong: counts in the dtype of the rows => generality raised
# ~ torch.zeros(1, dtype=torch.int64) ==> parts[0].new_zeros(1)
# ~ torch.tensor ==> parts[0].new_tensor
# %% wrong: the first rows of these lengths are kept => values -
# ~ def all_to_all(comm, parts): ==> def all_to_all(comm, parts, kept={}):
# ~ return got ==> return kept.setdefault((me, tuple(map(len, got))), got)
# %% half: right where nothing is empty => 6.8  from: empty rows come as None
'''
