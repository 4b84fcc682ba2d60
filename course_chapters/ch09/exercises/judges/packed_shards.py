import random
from collections.abc import Sequence, Sized

import torch
from torch import Tensor

from course_grader.exercises.probes import refusal
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Verdict, Worked, first, hidden, judged, shown
from course_grader.judging.tensors import coin_of, tensor_fault

SHARD, MERGE = 0, 1
right = Worked("packed-shards")


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin = coin_of(rng)

    def weight(sizes: Sequence[int], *more: int) -> Tensor:
        return torch.randn(sum(sizes), *more, generator=coin, dtype=torch.float32 if more else torch.float64)

    def cut(sizes: tuple[int, ...], ranks: int, *more: int) -> list[tuple[object, ...]]:
        whole = weight(sizes, *more)
        return [(whole, sizes, rank, ranks) for rank in range(ranks)]

    def merge(sizes: tuple[int, ...], ranks: int, *more: int) -> tuple[object, ...]:
        return [right[SHARD](*row) for row in cut(sizes, ranks, *more)], sizes

    rows, stacks, refused = params["rows"], "generality:stacks", "generality:refused"
    others = ((6, 6), 3, 4), ((20, 10, 10, 30), 10), ((3, 5), 1, 2, 2)
    halves, turned = cut(rows, 2, 3), (*rows[1:], rows[0])
    halves += [(whole, turned, *place) for whole, _, *place in halves]
    pieces = merge(rows, 2, 3)
    # of the first, the stack divides and its matrices do not
    uneven = [(sizes, (weight(sizes, 3), sizes, 1, 4)) for sizes in ((6, 2), (8, 4, 2), (2, 8, 4))]
    return [
        shown(f"sizes {rows} on 4 ranks", "values:shard", SHARD, cut(rows, 4, 5)),
        shown(f"pieces of {rows} from 4 ranks", "values:merge", MERGE, [merge(rows, 4, 5)]),
        hidden(f"sizes {rows} on 2 ranks", "values:shard", SHARD, halves),
        hidden(f"pieces of {rows} from 2 ranks", "values:merge", MERGE, [pieces, (pieces[0], turned)]),
        hidden("gate and up, a bias, one rank", stacks, SHARD, [row for each in others for row in cut(*each)]),
        hidden("pieces of gate and up, of a bias, of one rank", stacks, MERGE, [merge(*each) for each in others]),
        *(hidden(f"sizes {sizes} on 4 ranks", refused, SHARD, [row]) for sizes, row in uneven),
    ]


def _fault(which: int, got: object, want: Tensor, given: Sized, sizes: Sequence[int], *place: int) -> Fault | None:
    if refusal(got) is not None:
        return "refused", "It raises ValueError for sizes that the ranks divide."
    if which == SHARD:
        rank, ranks = place
        return tensor_fault(f"Sizes {tuple(sizes)}, rank {rank} of {ranks}: the piece", got, want)
    return tensor_fault(f"Sizes {tuple(sizes)}: the whole from {len(given)} pieces", got, want)


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    (which, table), results = case.args, outcome.value
    if case.part == "refused":
        odd = f"{case.name}: the ranks do not divide a size, so a rank would get part of a head; raise `ValueError`."
        return judged(case, ("not-refused", odd) if refusal(results[0]) is None else None)
    rows = zip(table, results, right.value(case), strict=True)
    return judged(case, first(*(_fault(which, got, want, *row) for row, got, want in rows)))


JUDGING = Judging(
    shares="values:shard 0.4, values:merge 0.3, generality:stacks 0.2, generality:refused 0.1",
    cases=_cases,
    verdicts=_verdicts,
    why="A stack of matrices is cut matrix by matrix. Each rank then holds a stack again, so its own product still "
    "yields queries, keys and values side by side. Concatenated in rank order, the pieces are not the whole.",
    pytorch="vLLM's `QKVParallelLinear` and `MergedColumnParallelLinear` load this way; DTensor has no "
    "placement for it.",
)

ANSWERS = r'''# %% right: worked
def packed_shard(weight, sizes, rank, ranks):
    """This rank's rows of a matrix that stacks several matrices of `sizes` rows."""
    if any(size % ranks for size in sizes):
        raise ValueError(f"{ranks} ranks do not divide {tuple(sizes)}")
    return torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))])


def packed_merge(shards, sizes):
    """The whole stack again, from all ranks' shards in order."""
    pieces = [shard.split([size // len(shards) for size in sizes]) for shard in shards]
    return torch.cat([torch.cat([piece[index] for piece in pieces]) for index in range(len(sizes))])
# %% right: the whole in the inverse order  from: worked
def packed_merge(shards, sizes):
    places = torch.arange(sum(sizes))
    order = torch.cat([packed_shard(places, sizes, rank, len(shards)) for rank in range(len(shards))])
    return torch.cat(list(shards))[order.argsort()]
# %% wrong: cut as one matrix => values contiguous
# > this is one stretch of the stack. Each rank needs its share of each of the matrices.
# ~ torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))]) ==> weight.chunk(ranks)[rank]
# %% wrong: merged by putting pieces behind one another => values concatenated
# > the pieces follow each other, [q₀ k₀ v₀ q₁ k₁ v₁ …]; the whole is [q | k | v].
# ~ pieces = [ ==> return torch.cat(list(shards)); pieces = [
# %% wrong: merged from the last rank to the first => values another-order
# > the ranks' parts are in the wrong order.
# ~ for piece in pieces ==> for piece in reversed(pieces)
# %% wrong: three equal parts, whatever the sizes => values equal-parts
# > the stack is cut as if its matrices were equally large; their sizes differ.
# ~ split(list(sizes)) ==> chunk(len(sizes))
# ~ split([size // len(shards) for size in sizes]) ==> chunk(len(sizes))
# %% wrong: rows dealt out => values dealt
# > rows were assigned in turn: a head's rows belong together.
# ~ torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))]) ==> weight[rank::ranks]
# ~ pieces = [ ==> return torch.stack(list(shards), 1).flatten(0, 1); pieces = [
# %% wrong: columns, as for a row layer => values another-kind
# ~ torch.cat([part.chunk(ranks)[rank] for part in weight.split(list(sizes))]) ==> weight.tensor_split(ranks, -1)[rank]
# ~ pieces = [ ==> return torch.cat(list(shards), -1); pieces = [
# %% wrong: a list instead of a stack => values not-a-tensor
# ~ torch.cat([part ==> ([part
# %% wrong: three matrices only => generality raised
# ~ part in weight.split(list(sizes)) ==> part in (lambda q, k, v: (q, k, v))(*weight.split(list(sizes)))
# ~ range(len(sizes)) ==> range(3)
# %% wrong: cuts what does not divide, too => generality not-refused
# ~ if any(size % ranks for size in sizes): ==> if False:
# ~ part.chunk(ranks) ==> part.tensor_split(ranks)
# %% wrong: returns the word instead of raising it => generality not-refused
# ~ raise ValueError(f"{ranks} ranks do not divide {tuple(sizes)}") ==> return {"refused": "ValueError"}
# %% wrong: refuses stacks of unequal matrices => values refused
# ~ any ==> len(set(sizes)) > 1 or any
# %% wrong: asks whether the stack divides, not its matrices => generality not-refused
# ~ any(size % ranks for size in sizes) ==> sum(sizes) % ranks
# ~ part.chunk(ranks) ==> part.tensor_split(ranks)
# %% half: pieces only => 3.2  from: merged by putting pieces behind one another
# %% half: an assertion instead of a ValueError => 7.2
# -     if any(size % ranks for size in sizes):
# -         raise ValueError(f"{ranks} ranks do not divide {tuple(sizes)}")
# +     assert all(size % ranks == 0 for size in sizes)
# %% wrong: eight ranks at most => generality refused
# ~ any(size % ranks for size in sizes) ==> ranks > 8 or any(size % ranks for size in sizes)
'''
