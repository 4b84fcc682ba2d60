from collections.abc import Sequence
from itertools import accumulate

from torch import Tensor

from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, first_of, oracle
from course_grader.judging.cases import hidden, shown, under
from course_grader.judging.ranks import BUFFERS_LATE, LATE, PerRank, over_ranks
from course_grader.judging.tensors import coin_of, normal
from course_grader.judging.traffic import too_few_bytes

right = Worked("window-halo")


def _halo_cases(params: Params, rng: Random) -> list[Case]:
    coin = coin_of(rng)

    def data(lengths: Sequence[int], window: int, heads: int = 2, view: bool = False) -> PerRank:
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


def _halo_fault(params: Params, case: Case, outcome: Outcome) -> Fault | None:
    pairs = zip(zip(*outcome.value, strict=True), zip(*right.value(case), strict=True), strict=True)
    return first_of(over_ranks(case, *pair, where=(at,)) for at, pair in enumerate(pairs))


def _halo_bytes(params: Params, case: Case, outcome: Outcome) -> Fault | None:
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


JUDGING = Judging(
    shares="values:keys 0.3, cost:neighbors 0.3, protocol:safe 0.1, generality:windows 0.15, generality:lengths 0.15",
    cases=_halo_cases,
    verdicts=oracle(_halo_fault, {"cost:neighbors": _halo_bytes}, named=True),
    why="""A query sees at most window − 1 keys before its rank's first token. All ranks know all lengths, so sender and
receiver compute the same overlaps, and no rank has to ask. The bytes do not grow with the sequence or with the number
of ranks.""",
    pytorch="PyTorch has no such exchange ready-made; a mask in `flex_attention` limits the work, not the messages.",
)

ANSWERS = r'''import itertools
# %% right: worked
def window_keys(comm, k, v, lengths: list[int], window: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(keys, values) that this rank's queries see, in the order of the sequence."""
    ends = list(itertools.accumulate(lengths))
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]

    def shared(reader: int, owner: int) -> range:
        first = max(0, starts[reader] - window + 1) if lengths[reader] else starts[reader]
        return range(max(first, starts[owner]), min(starts[reader], ends[owner]))

    pieces, works = [], []
    for other in range(comm.size):
        if comm.rank > other and (span := shared(comm.rank, other)):
            pieces.append(k.new_empty(2, len(k), len(span), k.shape[-1]))
            works.append(comm.irecv(pieces[-1], other))
        if comm.rank < other and (span := shared(other, comm.rank)):
            own = slice(span.start - starts[comm.rank], span.stop - starts[comm.rank])
            works.append(comm.isend(torch.stack([k[:, own], v[:, own]]), other))
    for work in works:
        work.wait()
    keys, values = torch.cat([*pieces, torch.stack([k, v])], 2)
    return keys, values
# %% right: keys and values in messages of their own
# -             pieces.append(k.new_empty(2, len(k), len(span), k.shape[-1]))
# -             works.append(comm.irecv(pieces[-1], other))
# +             pieces.append(torch.empty(2, len(k), len(span), k.shape[-1], dtype=k.dtype))
# +             works += [comm.irecv(each, other, tag=tag) for tag, each in enumerate(pieces[-1])]
# -             works.append(comm.isend(torch.stack([k[:, own], v[:, own]]), other))
# +             works += [comm.isend(each[:, own], other, tag=tag) for tag, each in enumerate((k, v))]
# %% wrong: no halo => values
# > these are its own keys alone; its first queries see keys of other ranks.
# ~ return keys, values ==> return k.clone(), v.clone()
# %% wrong: one too many => values
# > there is one key too many; a query sees itself and window − 1 keys before it.
# ~ window + 1 ==> window
# %% wrong: one too few => values
# > there is one key too few; a query sees itself and window − 1 keys before it.
# ~ window + 1 ==> window + 2
# %% wrong: one neighbor => generality
# > these are keys of one neighbor alone; the window reaches further.
# ~ min(starts[reader], ends[owner])) ==> min(starts[reader], ends[owner]) if owner == reader - 1 else starts[owner])
# %% wrong: everything => values
# > these are all keys from the start of the sequence.
# ~ first = max(0, starts[reader] - window + 1) if lengths[reader] else starts[reader] ==> first = 0
# %% wrong: every rank's keys to every later rank => cost too-many-bytes
# ~ max(first, starts[owner]), min(starts[reader], ends[owner]) ==> starts[owner], ends[owner]
#       keys, values = torch.cat([*pieces, torch.stack([k, v])], 2)
# +     first = max(0, starts[comm.rank] - window + 1) if len(k[0]) else starts[comm.rank]
# +     keys, values = keys[:, first:], values[:, first:]
# %% wrong: empty messages => cost not-needed
# ~ max(first, starts[owner]), min(starts[reader], ends[owner]) ==> low := max(first, starts[owner]), max(low,
# ~~ min(starts[reader], ends[owner]))
# ~ (span := shared(comm.rank, other)) ==> [span := shared(comm.rank, other)]
# ~ (span := shared(other, comm.rank)) ==> [span := shared(other, comm.rank)]
# %% wrong: a rank without tokens fetches keys => generality another-kind
# ~ window + 1) if lengths[reader] else starts[reader] ==> window + 1)
# %% wrong: the nearest first => generality other-numbers
# ~ cat([*pieces, ==> cat([*reversed(pieces),
# %% wrong: read before it arrives => protocol in-flight
#               works.append(comm.isend(torch.stack([k[:, own], v[:, own]]), other))
# +     keys, values = torch.cat([*pieces, torch.stack([k, v])], 2)
# -     keys, values = torch.cat([*pieces, torch.stack([k, v])], 2)
# %% wrong: the list of lengths is changed => values changed
# ~ return keys, values ==> lengths.insert(0, 0)
# +     return keys, values
# %% wrong: three ranks back at most => generality ~
# ~ comm.rank > other and ==> other < comm.rank < other + 4 and
# ~ comm.rank < other and ==> comm.rank < other < comm.rank + 4 and
# %% wrong: a window of 16 at most => values ~
# ~ - window + 1 ==> - min(window, 16) + 1
# %% wrong: the first keys of these lengths are kept => values -
# ~ def window_keys(comm, k, v, lengths: list[int], window: int) -> tuple[torch.Tensor, torch.Tensor]:
# ~~ ==> def window_keys(comm, k, v, lengths, window, kept={}):
# ~ return keys, values ==> return kept.setdefault((comm.rank, *lengths, window), (keys, values))
'''
