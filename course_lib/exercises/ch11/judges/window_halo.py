"""Judge of window-halo: a sliding window needs only neighbors."""

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch11.judges.reference import touched
from course_lib.judging import Fault, Judging, Params, judged
from course_lib.judging.cases import hidden, shown, under
from course_lib.judging.ranks import BUFFERS_LATE, LATE, moved_early
from course_lib.judging.tensors import coin_of, normal, not_like, same
from course_lib.judging.traffic import too_few_bytes
from course_lib.records import Case, Outcome, Verdict


def _halo_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def data(lengths: Sequence[int], window: int, heads: int = 2, view: bool = False) -> Any:
        width = rng.randrange(1, 7)

        def tensor(length: int) -> Tensor:
            x = normal(coin, length, heads, width).transpose(0, 1)
            return x.bfloat16() if view else x.contiguous()

        return tuple((list(lengths), window, tensor(length), tensor(length)) for length in lengths)

    def some(ranks: int) -> list[int]:
        return [rng.randrange(2, 7) for _ in range(ranks)]

    return [
        shown(f"four ranks, a window of {params['window']}", "values:keys", per_rank=data([8] * 4, params["window"])),
        hidden("three ranks, uneven lengths", "values:keys", per_rank=data([5, 17, 4], 4)),
        hidden("three ranks, a long window", "values:keys", per_rank=data([5, 17, 4], 18)),
        hidden("a window across several ranks", "generality:windows", per_rank=data([2, 3, 1, 4, 2], 8)),
        hidden("a window across six ranks", "generality:windows", per_rank=data([2, 1, 1, 2, 1, 1, 3], 8)),
        hidden("a window that ends at a rank's first token", "generality:windows", per_rank=data([3, 4, 3, 4], 5)),
        hidden("a window of one", "generality:windows", per_rank=data(some(3), 1)),
        hidden("a window of two", "generality:windows", per_rank=data([1, 2, 1], 2)),
        hidden("a window longer than the sequence", "generality:windows", per_rank=data([3, 2, 4], 50)),
        hidden("ranks without tokens", "generality:lengths", per_rank=data([4, 0, 3, 0], 4)),
        hidden("the first ranks without tokens", "generality:lengths", per_rank=data([0, 0, 3, 5], 4)),
        hidden("no token at all", "generality:lengths", per_rank=data([0, 0], 4)),
        hidden("one rank alone", "generality:lengths", per_rank=data([6], 3)),
        hidden("three ranks, a view in bf16", "generality:lengths", per_rank=data(some(3), 5, 3, view=True)),
        *under((LATE, BUFFERS_LATE), "three ranks", "protocol:safe", lambda: data([5, 6, 5], 4)),
    ]


def needs(lengths: Sequence[int], window: int, rank: int) -> range:
    """The positions of other ranks that a rank's queries see."""
    start = sum(lengths[:rank])
    return range(max(0, start - window + 1), start) if lengths[rank] else range(0)


STARTS = {
    "one-too-many": "one key too many; a query sees itself and window − 1 keys before it",
    "one-too-few": "one key too few; a query sees itself and window − 1 keys before it",
    "no-halo": "its own keys alone; its first queries see keys of other ranks",
    "one-neighbor": "keys of one neighbor alone; the window reaches further",
    "everything": "all keys from the start of the sequence",
}


def _halo_fault(case: Case, results: Sequence[Any]) -> Fault | None:
    rows = case.per_rank or ()
    lengths, window = rows[0][:2]
    for rank, got in enumerate(results):
        for at, name in ((2, "k"), (3, "v")):
            whole, start = torch.cat([row[at] for row in rows], 1), sum(lengths[:rank])
            end, halo = start + lengths[rank], needs(lengths, window, rank)
            first_seen = start - len(halo)
            want = whole[:, first_seen:end]
            if same(got[name], want):
                continue
            neighbor = max(first_seen, start - (lengths[rank - 1] if rank else 0))
            for slip, there in zip(STARTS, (first_seen - 1, first_seen + 1, start, neighbor, 0), strict=True):
                if 0 <= there != first_seen and same(got[name], whole[:, there:end]):
                    return slip, f"rank {rank}, {name}: this is {STARTS[slip]}."
            if fault := not_like(got[name], want, rank):
                return fault
            if case.adversary is not None:
                return moved_early(case, rank)
            return "other-numbers", f"rank {rank}, {name}: other numbers than those of the sequence, or another order."
    return touched(results)


def _halo_bytes(case: Case, outcome: Outcome) -> Fault | None:
    rows = case.per_rank or ()
    lengths, window = rows[0][:2]
    starts = [0, *accumulate(lengths)]
    row = 2 * rows[0][2].shape[0] * rows[0][2].shape[2] * rows[0][2].element_size()
    due = {
        (src, dst): row * shared
        for src in range(len(rows))
        for dst in range(len(rows))
        if (shared := len(set(needs(lengths, window, dst)) & set(range(starts[src], starts[src + 1]))))
    }
    for src, dst, nbytes, messages in outcome.meter["pairs"]:
        if messages and (src, dst) not in due:
            return "not-needed", f"rank {src} sent to rank {dst}, whose queries see none of its keys."
        if nbytes > due.get((src, dst), 0):
            return "too-many-bytes", f"rank {src} sent {nbytes:,} bytes to rank {dst}, which needs {due[src, dst]:,}."
    needed = [sum(size for (_, dst), size in due.items() if dst == rank) for rank in range(len(rows))]
    return too_few_bytes(outcome.meter, [0] * len(rows), needed)


def _halo_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    fault = _halo_fault(case, outcome.value)
    cost = None if case.adversary else ("cost", "neighbors", _halo_bytes(case, outcome))
    return judged(case, fault, *([cost] if cost else []), named=True)


JUDGING = Judging(
    shares="values:keys 0.3, cost:neighbors 0.3, protocol:safe 0.1, generality:windows 0.15, generality:lengths 0.15",
    cases=_halo_cases,
    verdicts=_halo_verdicts,
    why="""A query sees at most window − 1 keys before its rank's first token. All ranks know all lengths, so sender and receiver compute the same overlaps, and no rank
has to ask. The bytes do not grow with the sequence or with the number of ranks.""",
    pytorch="PyTorch has no such exchange ready-made; a mask in `flex_attention` limits the work, not the messages.",
)

ANSWERS = r"""import itertools

import torch


# %% right: overlaps that all ranks compute
def window_keys(comm, k, v, lengths, window):
    n, rank = comm.size, comm.rank
    starts = [0, *itertools.accumulate(lengths)]

    def needed(reader, owner):
        first = max(0, starts[reader] - window + 1) if lengths[reader] else starts[reader]
        low, high = max(first, starts[owner]), min(starts[reader], starts[owner + 1])
        return (low, high) if high > low else None

    works, pieces = [], []
    for owner in range(rank):
        if span := needed(rank, owner):
            piece = k.new_empty(2, len(k), span[1] - span[0], k.shape[-1])
            pieces.append(piece)
            works.append(comm.irecv(piece, owner))
    for reader in range(rank + 1, n):
        if span := needed(reader, rank):
            low, high = span[0] - starts[rank], span[1] - starts[rank]
            works.append(comm.isend(torch.stack([k[:, low:high], v[:, low:high]]), reader))
    for work in works:
        work.wait()
    keys = torch.cat([*(piece[0] for piece in pieces), k], 1)
    values = torch.cat([*(piece[1] for piece in pieces), v], 1)
    return keys, values


# %% right: position by position
def window_keys(comm, k, v, lengths, window):
    owners = [rank for rank, length in enumerate(lengths) for _ in range(length)]
    firsts = [owners.index(rank) if length else None for rank, length in enumerate(lengths)]
    sees = [set() if first is None else set(range(max(0, first - window + 1), first)) for first in firsts]
    works, arriving = [], []
    for other in range(comm.size):
        wanted = sorted(p for p in sees[comm.rank] if owners[p] == other)
        if wanted:
            pair = [k.new_empty(len(k), len(wanted), k.shape[-1]) for _ in range(2)]
            works += [comm.irecv(each, other, tag=tag) for tag, each in enumerate(pair)]
            arriving.append(pair)
        given = sorted(p for p in sees[other] if owners[p] == comm.rank)
        if given:
            rows = [p - firsts[comm.rank] for p in given]
            works += [comm.isend(each[:, rows], other, tag=tag) for tag, each in enumerate((k, v))]
    for work in works:
        work.wait()
    return tuple(torch.cat([*(pair[at] for pair in arriving), own], 1) for at, own in enumerate((k, v)))


# %% wrong: its own keys alone => values no-halo
def window_keys(comm, k, v, lengths, window):
    return k.clone(), v.clone()


# %% wrong: one key too many => values one-too-many  from: overlaps that all ranks compute
# ~ window + 1 ==> window

# %% wrong: one key too few => values one-too-few  from: overlaps that all ranks compute
# ~ window + 1 ==> window + 2

# %% wrong: one neighbor => generality one-neighbor  from: overlaps that all ranks compute
# ~ high > low ==> high > low and owner == reader - 1

# %% wrong: every rank's keys to every later rank => cost too-many-bytes  from: overlaps that all ranks compute
# ~ (low, high) if high > low ==> (starts[owner], starts[owner + 1]) if lengths[owner]
#           work.wait()
# +     first = max(0, starts[rank] - window + 1) if lengths[rank] else starts[rank]
# ~ keys, values ==> keys[:, first:], values[:, first:]

# %% wrong: empty messages => cost not-needed  from: overlaps that all ranks compute
# ~ (low, high) if high > low else None ==> (low, max(low, high))

# %% wrong: a rank without tokens fetches keys => generality -  from: overlaps that all ranks compute
# ~ (0, starts[reader] - window + 1) if lengths[reader] else starts[reader] ==> (0, starts[reader] - window + 1)

# %% wrong: the nearest first => generality other-numbers  from: overlaps that all ranks compute
# ~ ([*(piece[0] for piece in pieces), k], 1) ==> ([*(piece[0] for piece in reversed(pieces)), k], 1)

# %% wrong: read before it arrives => protocol in-flight  from: overlaps that all ranks compute
#               works.append(comm.isend(torch.stack([k[:, low:high], v[:, low:high]]), reader))
# +     keys = torch.cat([*(piece[0] for piece in pieces), k], 1)
# +     values = torch.cat([*(piece[1] for piece in pieces), v], 1)
# -     keys = torch.cat([*(piece[0] for piece in pieces), k], 1)
# -     values = torch.cat([*(piece[1] for piece in pieces), v], 1)

# %% wrong: the list of lengths is changed => values changed  from: overlaps that all ranks compute
#       values = torch.cat([*(piece[1] for piece in pieces), v], 1)
# +     lengths.insert(0, 0)

# %% wrong: three ranks back at most => generality ~  from: overlaps that all ranks compute
# ~ high > low ==> high > low and reader <= owner + 3

# %% wrong: a window of 16 at most => values ~  from: overlaps that all ranks compute
# ~ comm.size, comm.rank ==> comm.size, comm.rank + 0 * (window := min(window, 16))

# %% wrong: the first keys of these lengths are kept => values -  from: overlaps that all ranks compute
# ~ def window_keys(comm, k, v, lengths, window): ==> def window_keys(comm, k, v, lengths, window, kept={}):
# ~ return keys, values ==> return kept.setdefault((rank, *lengths, window), (keys, values))
"""
