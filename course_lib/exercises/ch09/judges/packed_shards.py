"""Judge of packed-shards: three matrices packed into one."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch09.probes import REFUSED
from course_lib.judging import Fault, Judging, Mistake, Params, first, judged
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _shard(weight: Tensor, sizes: Sequence[int], rank: int, ranks: int) -> Tensor:
    return torch.cat([each.chunk(ranks)[rank] for each in weight.split(list(sizes))])


def _packed_cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def weight(sizes: Sequence[int], *more: int) -> Tensor:
        return torch.randn(sum(sizes), *more, generator=coin, dtype=torch.float32 if more else torch.float64)

    def cut(sizes: tuple[int, ...], ranks: int, *more: int) -> list[tuple[Any, ...]]:
        whole = weight(sizes, *more)
        return [(whole, sizes, rank, ranks) for rank in range(ranks)]

    def merge(sizes: tuple[int, ...], ranks: int, *more: int) -> tuple[Any, ...]:
        whole = weight(sizes, *more)
        return [_shard(whole, sizes, rank, ranks) for rank in range(ranks)], sizes

    rows, stacks, refused = params["rows"], "generality:stacks", "generality:refused"
    odd = (weight((6, 2)), (6, 2), 0, 4)  # the stack divides, its matrices do not
    others = ((6, 6), 3, 4), ((20, 10, 10, 30), 10), ((3, 5), 1, 2, 2)
    cases = [
        shown(f"sizes {rows} on 4 ranks", "values:shard", 0, cut(rows, 4, 5)),
        shown(f"pieces of {rows} from 4 ranks", "values:merge", 1, [merge(rows, 4, 5)]),
        hidden(f"sizes {rows} on 2 ranks", "values:shard", 0, cut(rows, 2, 3)),
        hidden(f"pieces of {rows} from 2 ranks", "values:merge", 1, [merge(rows, 2, 3)]),
        hidden("gate and up, a bias, one rank", stacks, 0, [row for each in others for row in cut(*each)]),
        hidden("pieces of gate and up, of a bias, of one rank", stacks, 1, [merge(*each) for each in others]),
        hidden("sizes (6, 2) on 4 ranks", refused, 0, [odd], secret=REFUSED),
    ]
    for uneven in ((8, 4, 2), (2, 8, 4)):
        row = (weight(uneven, 3), uneven, 1, 4)
        cases.append(hidden(f"sizes {uneven} on 4 ranks", refused, 0, [row], secret=REFUSED))
    return cases


def _refused(got: Any) -> bool:
    return type(got) is str and got == REFUSED


def _packed_fault(which: int, row: Sequence[Any], got: Any) -> Fault | None:
    if _refused(got):
        return "refused", "It raises ValueError for sizes that the ranks divide."
    if which == 0:
        weight, sizes, rank, ranks = row
        want, where = _shard(*row), f"Sizes {tuple(sizes)}, rank {rank} of {ranks}: the piece"
        stretch = weight.chunk(ranks)[rank] if len(weight) % ranks == 0 else weight
        contiguous = "this is one stretch of the stack. Each rank needs its share of each of the matrices."
        mistakes = [
            Mistake("contiguous", stretch, contiguous),
            Mistake("dealt", weight[rank::ranks], "rows were assigned in turn: a head's rows belong together."),
        ]
    else:
        shards, sizes = row
        parts = [shard.split([size // len(shards) for size in sizes]) for shard in shards]
        want = torch.cat([torch.cat(each) for each in zip(*parts, strict=True)])
        where = f"Sizes {tuple(sizes)}: the whole from {len(shards)} pieces"
        backwards = torch.cat([torch.cat(each[::-1]) for each in zip(*parts, strict=True)])
        behind = "the pieces follow each other, [q₀ k₀ v₀ q₁ k₁ v₁ …]; the whole is [q | k | v]."
        mistakes = [
            Mistake("concatenated", torch.cat(list(shards)), behind),
            Mistake("another-order", backwards, "the ranks' parts are in the wrong order."),
        ]
    return tensor_fault(where, got, want, mistakes)


def _packed_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (which, table), results = case.args, outcome.value
    if case.secret == REFUSED:
        odd = f"{case.name}: the ranks do not divide a size, so a rank would get part of a head; raise `ValueError`."
        return judged(case, None if _refused(results[0]) else ("not-refused", odd))
    return judged(case, first(*(_packed_fault(which, *each) for each in zip(table, results, strict=True))))


JUDGING = Judging(
    shares="values:shard 0.4, values:merge 0.3, generality:stacks 0.2, generality:refused 0.1",
    cases=_packed_cases,
    verdicts=_packed_verdicts,
    why="A stack of matrices is cut matrix by matrix. Each rank then holds a stack again, so its own product still yields queries, keys "
    "and values side by side. Concatenated in rank order, the pieces are not the whole.",
    pytorch="vLLM's `QKVParallelLinear` and `MergedColumnParallelLinear` load this way; DTensor has no placement for it.",
)

ANSWERS = r"""import torch


# %% right: split, chunk, stack
def packed_shard(weight, sizes, rank, ranks):
    if any(size % ranks for size in sizes):
        raise ValueError(f"{ranks} ranks do not divide {tuple(sizes)}")
    return torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))])


def packed_merge(shards, sizes):
    pieces = [shard.split([size // len(shards) for size in sizes]) for shard in shards]
    return torch.cat([torch.cat([piece[index] for piece in pieces]) for index in range(len(sizes))])


# %% right: indices, and their inverse
def _rows(sizes, rank, ranks):
    rows, start = [], 0
    for size in sizes:
        if size % ranks:
            raise ValueError("does not divide")
        share = size // ranks
        rows += range(start + rank * share, start + (rank + 1) * share)
        start += size
    return rows


def packed_shard(weight, sizes, rank, ranks):
    return weight[_rows(sizes, rank, ranks)]


def packed_merge(shards, sizes):
    whole = torch.empty(sum(sizes), *shards[0].shape[1:], dtype=shards[0].dtype)
    for rank, shard in enumerate(shards):
        whole[_rows(sizes, rank, len(shards))] = shard
    return whole


# %% wrong: cut as one matrix => values contiguous  from: split, chunk, stack
# ~ torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))]) ==> weight.chunk(ranks)[rank]
# -     pieces = [shard.split([size // len(shards) for size in sizes]) for shard in shards]
# -     return torch.cat([torch.cat([piece[index] for piece in pieces]) for index in range(len(sizes))])
# +     return torch.cat(list(shards))


# %% wrong: merged by putting pieces behind one another => values concatenated  from: split, chunk, stack
def packed_merge(shards, sizes):
    return torch.cat(list(shards))


# %% wrong: three equal parts, whatever the sizes => values -  from: split, chunk, stack
# ~ split(list(sizes)) ==> chunk(len(sizes))
# ~ split([size // len(shards) for size in sizes]) ==> chunk(len(sizes))

# %% wrong: rows dealt out => values dealt  from: cut as one matrix
# ~ weight.chunk(ranks)[rank] ==> weight[rank::ranks]
# ~ cat(list(shards)) ==> stack(list(shards), 1).flatten(0, 1)

# %% wrong: columns, as for a row layer => values -  from: cut as one matrix
# ~ chunk(ranks) ==> tensor_split(ranks, -1)
# ~ (list(shards)) ==> (list(shards), -1)

# %% wrong: a list instead of a stack => values not-a-tensor  from: cut as one matrix
# ~ weight.chunk(ranks)[rank] ==> [part.chunk(ranks)[rank] for part in weight.split(list(sizes))]
# ~ torch.cat(list(shards)) ==> [torch.cat(parts) for parts in zip(*shards)]

# %% wrong: three matrices only => generality -  from: split, chunk, stack
# -     return torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))])
# +     q, k, v = weight.split(list(sizes))
# +     return torch.cat([part.chunk(ranks)[rank] for part in (q, k, v)])
# ~ range(len(sizes)) ==> range(3)


# %% wrong: cuts what does not divide, too => generality not-refused  from: split, chunk, stack
def packed_shard(weight, sizes, rank, ranks):
    return torch.cat([part.tensor_split(ranks)[rank] for part in weight.split(list(sizes))])


# %% wrong: refuses stacks of unequal matrices => values refused  from: split, chunk, stack
# ~ any ==> len(set(sizes)) > 1 or any

# %% wrong: asks whether the stack divides, not its matrices => generality not-refused  from: cuts what does not divide, too
#   def packed_shard(weight, sizes, rank, ranks):
# +     if sum(sizes) % ranks:
# +         raise ValueError

# %% half: pieces only => 3.2  from: merged by putting pieces behind one another

# %% half: an assertion instead of a ValueError => 7.2  from: split, chunk, stack
# -     if any(size % ranks for size in sizes):
# -         raise ValueError(f"{ranks} ranks do not divide {tuple(sizes)}")
# +     assert all(size % ranks == 0 for size in sizes)

# %% wrong: eight ranks at most => generality refused  from: split, chunk, stack
# ~ if any(size % ranks for size in sizes): ==> if any(size % ranks for size in sizes) or ranks > 8:
"""
