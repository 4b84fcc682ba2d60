"""Judges of chapter 09's pieces: cuts of a matrix by column and row, and of matrices that are packed in one."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch09.probes import REFUSED, WEIGHED, factors
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, describe, first, judged, matching
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, same, tensor_fault
from course_lib.records import Case, Outcome, Verdict

# --- column and row

SHARDS = ("column", "row")


def _cut_cases(params: Params, rng: random.Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def cut(share: str, which: int, rank: int, *sizes: Any, make: Callable[..., Case] = hidden) -> Case:
        """A case on a secret weight; `sizes` are ranks, outputs, inputs and perhaps a dtype."""
        ranks, out, into, *dtype = sizes
        shape = (out, into) if params["layout"] == "torch" else (into, out)
        name = f"{SHARDS[which]}, rank {rank} of {ranks}, {into} inputs, {out} outputs"
        wide = torch.randn(shape, generator=coin, dtype=torch.float64)
        return make(name, share, which, wide.to(*dtype or [torch.float32]), rank, ranks)

    wide, others = (4, width, width // 3), [(0, 1, 4, 6), (2, 3, 9, 9), (4, 5, 10, 20, torch.bfloat16)]
    others += [(10, 12, 24, 12, torch.float64)]
    cases = [cut(f"values:{part}", which, 1, *wide, make=shown) for which, part in enumerate(SHARDS)]
    cases += [cut(f"values:{part}", which, rank, *wide) for which, part in enumerate(SHARDS) for rank in (0, 3)]
    return cases + [cut("generality:shapes", which, *sizes) for which in (0, 1) for sizes in others]


def _dim(which: int, layout: str) -> int:
    """The dimension along which a weight is cut."""
    return which if layout == "torch" else 1 - which


def _cut_verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    _, weight, _, ranks = case.args
    got, nbytes = outcome.value
    others = [("cost", "memory", _view_fault(nbytes, got, weight))] if ranks > 1 and case.kind == "values" else []
    return judged(case, _cut_fault(params, case, got), *others)


def _cut_fault(params: Params, case: Case, got: Tensor) -> Fault | None:
    """What is wrong with a piece: another piece of the same weight by its name, else what it is."""
    which, weight, rank, ranks = case.args
    dim, where = _dim(which, params["layout"]), f"{case.name}: the piece"
    pieces = weight.chunk(ranks, dim)
    want = pieces[rank]
    if same(got, want):
        return None
    mistakes = [Mistake("transposed", want.T, "is transposed; keep the layout of the weight.")]
    if ranks > 1:
        public = params["layout"] == "textbook"
        name, lead = ("public-form", "solves the public form of the exercise: it ") if public else ("other-cut", "")
        other = f"{lead}is cut along the other dimension. Which one counts outputs in a weight held {params['held']}?"
        dealt = weight[rank::ranks] if dim == 0 else weight[:, rank::ranks]
        in_turn = f"has every {ranks}-th row or column; the cut is in order, one range for each rank."
        mistakes += [
            Mistake(name, weight.chunk(ranks, 1 - dim)[rank], other),
            Mistake("whole", weight, "is the whole weight: every rank keeps everything, and nothing is saved."),
            *(Mistake("another-rank's", piece, "is another rank's.") for piece in pieces),
            Mistake("dealt", dealt, in_turn),
        ]
    found = matching(mistakes, (), lambda value: same(got, value), f"{where} ")
    return found or tensor_fault(where, got, want) or ("other-numbers", f"{where} does not have the weight's numbers.")


def _view_fault(nbytes: float | None, piece: Tensor, weight: Tensor) -> Fault | None:
    own = piece.numel() * piece.element_size()
    if nbytes is None:
        return "not-measured", "The piece's memory could not be measured."
    if nbytes <= own:
        return None
    kept = f"keeps {int(nbytes):,} alive: it is a view, and the whole weight stays in memory as long as the piece."
    return "a-view", f"The piece has {own:,} bytes and {kept}"


def _cut_weighed(params: Params, rng: random.Random) -> Weighed:
    """96 weights of 2 MB, one at a time, 64 pieces each: copies hold 1.5 weights and what a cut makes of one; views keep 48 alive."""
    ranks, rank, large_sizes = 64, rng.randrange(64), (704, 768)

    def case(name: str, sizes: tuple[int, int]) -> Case:
        places = tuple([rng.randrange(size // ranks) for _ in range(32)] for size in sizes)
        args = (WEIGHED, (rng.randrange(2**31), sizes, 96), rank, ranks, places)
        return hidden(name, "cost:memory", *args, seconds=30.0)

    def right(which: int, parts: list[Tensor], got: Any) -> bool:
        dim, (rows, columns) = _dim(which, params["layout"]), large.args[-1]
        parts[dim] = parts[dim].chunk(ranks)[rank]
        if type(got) is not tuple or len(got) != 2 or describe(got[0]) != describe([len(part) for part in parts]):
            return False
        return same(got[1], parts[0][rows] * parts[1][columns])

    def done(outcome: Outcome) -> bool:
        weights, pieces = factors(*large.args[1]), outcome.value
        fits = type(pieces) is list and len(pieces) == len(weights)
        return fits and all(right(at % 2, *each) for at, each in enumerate(zip(weights, pieces, strict=True)))

    large = case("96 weights of 2 MB, cut for 64 ranks", large_sizes)
    most = 30 * 4 * large_sizes[0] * large_sizes[1]
    return Weighed(case=large, warm=case("96 small weights", (64, 128)), most=most, done=done)


# --- packed matrices


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


PIECES = {
    "column-and-row": Judging(
        shares="values:column 0.35, values:row 0.35, cost:memory 0.15, generality:shapes 0.15",
        measured_by_worker=("cost:memory",),
        weighed=_cut_weighed,
        cases=_cut_cases,
        verdicts=_cut_verdicts,
        why="A column cut splits the outputs, so each rank needs all inputs; a row cut splits the inputs, so each rank has a part of every "
        "output. `nn.Linear` keeps (out, in), which is why a column cut is `dim=0` there.",
        pytorch="`ColwiseParallel` of an `nn.Linear` is `Shard(0)` of its weight, `RowwiseParallel` is `Shard(1)`.",
    ),
    "packed-shards": Judging(
        shares="values:shard 0.4, values:merge 0.3, generality:stacks 0.2, generality:refused 0.1",
        cases=_packed_cases,
        verdicts=_packed_verdicts,
        why="A stack of matrices is cut matrix by matrix. Each rank then holds a stack again, so its own product still yields queries, keys "
        "and values side by side. Concatenated in rank order, the pieces are not the whole.",
        pytorch="vLLM's `QKVParallelLinear` and `MergedColumnParallelLinear` load this way; DTensor has no placement for it.",
    ),
}
