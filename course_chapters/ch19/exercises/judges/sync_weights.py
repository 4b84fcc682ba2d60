import random
from collections import defaultdict

import torch

from course_grader.judging import Fault, Judging, Params, Worked
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.oracles import oracle
from course_grader.judging.ranks import UNKIND, PerRank, over_ranks, secret
from course_grader.judging.tensors import coin_of
from course_grader.judging.traffic import too_few_bytes
from course_grader.records import Case, Outcome

right = Worked("sync-weights")
Ranges = list[tuple[int, int]]


def _even(total: int, parts: int) -> Ranges:
    return [(total * at // parts, total * (at + 1) // parts) for at in range(parts)]


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, trainers, width = coin_of(rng), params["trainers"], params["width"]

    def given(
        rows: Ranges, columns: Ranges, across: int, dtype: torch.dtype = torch.float32, flip: bool = False
    ) -> PerRank:
        whole = secret(coin, max(stop for _, stop in rows), across, dtype=dtype)
        if flip:
            whole = whole.t().contiguous().t()
        shards = [whole[start:stop] for start, stop in rows] + [whole[:0]] * len(columns)
        return tuple((list(rows), list(columns), shard) for shard in shards)

    copied = _even(8, trainers) * 2
    odd = [(0, 3), (3, 4), (4, 9)]
    return [
        shown(f"{trainers} + 2 ranks", "values:parts", per_rank=given(_even(6, trainers), _even(width, 2), width)),
        shown("two copies of the rows", "values:parts", per_rank=given(copied, _even(width, 4), width)),
        hidden("uneven rows and columns", "values:parts", per_rank=given(odd, [(0, 1), (1, 5)], 5)),
        hidden("one trainer rank, three generators", "generality:ranks", per_rank=given([(0, 4)], _even(9, 3), 9)),
        hidden("four trainer ranks, one generator", "generality:ranks", per_rank=given(_even(8, 4), [(0, 3)], 3)),
        hidden("one and one", "generality:ranks", per_rank=given([(0, 2)], [(0, 2)], 2)),
        hidden("one and two", "generality:ranks", per_rank=given([(0, 3)], [(0, 2), (2, 5)], 5)),
        hidden("three copies, five generators", "generality:copies", per_rank=given([(0, 4)] * 3, _even(10, 5), 10)),
        hidden("copies of some rows", "generality:copies", per_rank=given([(0, 2), (2, 6), (0, 2)], _even(8, 4), 8)),
        hidden("copies side by side", "generality:copies", per_rank=given([(0, 3)] * 2 + [(3, 7)] * 2, _even(6, 3), 6)),
        hidden("rows in another order", "generality:ranges", per_rank=given([(5, 8), (0, 3), (3, 5)], _even(4, 2), 4)),
        hidden("a rank without rows", "generality:ranges", per_rank=given([(0, 2), (2, 2), (2, 5)], _even(4, 2), 4)),
        hidden("equal and overlapping columns", "generality:ranges", per_rank=given(odd, [(0, 4), (0, 4), (2, 6)], 7)),
        hidden("bfloat16", "generality:ranges", per_rank=given(odd, _even(6, 2), 6, torch.bfloat16)),
        hidden("columns in memory order", "generality:ranges", per_rank=given(odd, _even(6, 2), 6, flip=True)),
        *under(UNKIND, "two copies", "generality:ranks", lambda: given(_even(6, 2) * 2, _even(6, 2), 6)),
    ]


def _owed(case: Case, in_turn: bool) -> dict[tuple[int, int], int]:
    """Bytes that each pair of ranks must exchange if copies share the work in turn, or in blocks."""
    rows, columns, shard = (case.per_rank or ())[0]
    owed: dict[tuple[int, int], int] = defaultdict(int)
    for held in set(rows):
        copies = [rank for rank, each in enumerate(rows) if each == held]
        for g, (start, stop) in enumerate(columns):
            copy = g % len(copies) if in_turn else g * len(copies) // len(columns)
            owed[copies[copy], len(rows) + g] += (held[1] - held[0]) * (stop - start) * shard.element_size()
    return {pair: size for pair, size in owed.items() if size}


def _fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    results = outcome.value
    if fault := over_ranks(case, [each["x"] for each in results], [each["x"] for each in right.value(case)]):
        return fault
    changed = next((rank for rank, each in enumerate(results) if each["touched"] is not False), None)
    return None if changed is None else ("changed", f"Rank {changed} changed `shard`, `rows` or `columns`.")


def _bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    in_turn = params["serves"] == "in turn"
    owed, other = _owed(case, in_turn), _owed(case, not in_turn)
    sent = {(src, dst): size for src, dst, size, _ in outcome.meter["pairs"] if size}
    for (src, dst), size in sent.items():
        due = owed.get((src, dst), 0)
        if size > due:
            told = f"Rank {src} sent {size:,} bytes to rank {dst}, which needs {due:,} bytes from it"
            if sent == other:
                return "other-copy" if in_turn else "public-form", f"{told}: the copies share the work by another rule."
            return "too-many-bytes", f"{told}."
    least = [sum(size for (src, _), size in owed.items() if src == rank) for rank in range(case.ranks or 1)]
    return too_few_bytes(outcome.meter, least, [0] * len(least))


JUDGING = Judging(
    shares="values:parts 0.25, cost:bytes 0.3, generality:ranks 0.15, generality:copies 0.15, generality:ranges 0.15",
    cases=_cases,
    verdicts=oracle(_fault, {"cost:bytes": _bytes}, named=True),
    why="""Both layouts are known on all ranks, so no rank has to ask: each overlap of a row range with a column range
is one message. The generators receive exactly the bytes that they keep, which is the least possible. Gathering the
matrix first would move it once more for every rank. Copies divide the sending, so that no single link is the
bottleneck.""",
    pytorch="`torch.distributed.checkpoint` plans its reads in this way. Frameworks often gather each tensor and "
    "broadcast it in buckets instead; Moonshot's checkpoint-engine has both forms.",
)

ANSWERS = r'''import torch

from course_lib import params


# %% right: worked
serves = params("sync-weights").serves  # leave as is: copies serve the generators "in turn" or "in blocks"


def sync_weights(comm, shard, rows: list, columns: list) -> torch.Tensor:
    """A generator rank's columns of all rows; on a trainer rank its shard."""
    ### BEGIN SOLUTION
    trainers = len(rows)

    def sources(g: int) -> list[int]:
        holders = [[r for r, each in enumerate(rows) if each == held] for held in dict.fromkeys(rows)]
        at = (lambda n: g % n) if serves == "in turn" else (lambda n: g * n // len(columns))
        return [ranks[at(len(ranks))] for ranks in holders]

    if comm.rank < trainers:
        for g, (start, stop) in enumerate(columns):
            if comm.rank in sources(g):
                comm.send(shard[:, start:stop], trainers + g)
        return shard
    start, stop = columns[comm.rank - trainers]
    got = shard.new_empty(max(last for _, last in rows), stop - start)
    for source in sources(comm.rank - trainers):
        comm.recv(got[slice(*rows[source])], source)
    return got
    ### END SOLUTION

# %% right: all sends at once
# ~ trainers = len(rows) ==> trainers, works = len(rows), []
# ~ for held in dict.fromkeys(rows)] ==> for held in sorted(set(rows))]
# ~ comm.send(shard[:, start:stop], trainers + g) ==> works.append(comm.isend(shard[:, start:stop], trainers + g))
# ~ return shard ==> return [shard, *(work.wait() for work in works)][0]
# ~ comm.recv(got[slice(*rows[source])], source) ==> works.append(comm.irecv(got[slice(*rows[source])], source))
# ~ return got ==> return [got, *(work.wait() for work in works)][0]
# %% wrong: whole shards are sent => cost too-many-bytes
# ~ comm.send(shard[:, start:stop], trainers + g) ==> comm.send(shard, trainers + g)
# ~ comm.recv(got[slice(*rows[source])], source)
# ~~ ==> part = shard.new_empty(rows[source][1] - rows[source][0], shard.shape[1]); comm.recv(part, source)
# +         got[slice(*rows[source])] = part[:, start:stop]
# %% wrong: all numbers travel in fp64 => cost too-many-bytes
# ~ comm.send(shard[:, start:stop], trainers + g) ==> comm.send(shard[:, start:stop].double(), trainers + g)
# ~ comm.recv(got[slice(*rows[source])], source) ==> part = got[slice(*rows[source])].double(); comm.recv(part, source)
# +         got[slice(*rows[source])] = part
# %% wrong: the first copy sends all => cost too-many-bytes
# ~ return [ranks[at(len(ranks))] for ranks in holders] ==> return [ranks[0] for ranks in holders]
# %% wrong: the other rule for copies => cost other-copy unless serves=in blocks
# ~ serves == "in turn" ==> not serves
# %% wrong: the public rule for copies => cost public-form unless serves=in turn
# ~ serves == "in turn" ==> serves
# %% wrong: every copy sends => cost too-many-bytes
# ~ return [ranks[at(len(ranks))] for ranks in holders] ==> return [rank for ranks in holders for rank in ranks]
# %% wrong: the first columns for all => values
# > this generator got the columns of the first one.
# ~ for g, (start, stop) in enumerate(columns): ==> for g, (start, stop) in enumerate([columns[0]] * len(columns)):
# ~ start, stop = columns[comm.rank - trainers] ==> start, stop = columns[0]
# %% wrong: rows in the order of ranks => generality
# > the rows are in the order of the ranks that sent them; put them where `rows` says.
#       for source in sources(comm.rank - trainers):
# -         comm.recv(got[slice(*rows[source])], source)
# -     return got
# +         comm.recv(got[slice(*rows[source])], source)
# +     return torch.cat([got[slice(*rows[source])] for source in sorted(sources(comm.rank - trainers))])
# %% wrong: as many rows on every rank => values raised
# ~ got[slice(*rows[source])] ==> got[source * len(got) // trainers : (source + 1) * len(got) // trainers]
# %% wrong: columns in equal parts => values
# > every generator got an equal share of the columns; `columns` says which ones it needs.
# ~ for g, (start, stop) in enumerate(columns):
# ~~ ==> for g, (start, stop) in enumerate(columns):
# +             start, stop = (shard.shape[1] * (g + i) // len(columns) for i in (0, 1))
# ~ start, stop = columns[comm.rank - trainers]
# ~~ ==> start, stop = (shard.shape[1] * (comm.rank - trainers + i) // len(columns) for i in (0, 1))
# %% wrong: a trainer returns nothing => values returned-none
# ~ return shard ==> return None
# %% wrong: 32 bits at most => generality raised
# ~ got = shard.new_empty( ==> got = torch.empty(
# %% wrong: the list of rows is emptied => values changed
# ~ return shard ==> rows.clear(); return shard
'''
