"""Judge of column-and-row: two ways to split a matrix."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.ch09.probes import WEIGHED, factors
from course_lib.judging import Fault, Judging, Mistake, Params, Weighed, describe, judged, matching
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, same, tensor_fault
from course_lib.records import Case, Outcome, Verdict

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


JUDGING = Judging(
    shares="values:column 0.35, values:row 0.35, cost:memory 0.15, generality:shapes 0.15",
    measured_by_worker=("cost:memory",),
    weighed=_cut_weighed,
    cases=_cut_cases,
    verdicts=_cut_verdicts,
    why="A column cut splits the outputs, so each rank needs all inputs; a row cut splits the inputs, so each rank has a part of every "
    "output. `nn.Linear` keeps (out, in), which is why a column cut is `dim=0` there.",
    pytorch="`ColwiseParallel` of an `nn.Linear` is `Shard(0)` of its weight, `RowwiseParallel` is `Shard(1)`.",
)

ANSWERS = r"""import copy

import torch


# %% right: chunk and clone
def column_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=0)[rank].clone()


def row_shard(weight, rank, ranks):
    return weight.chunk(ranks, dim=1)[rank].clone()


# %% right: ranges counted out
def column_shard(weight, rank, ranks):
    rows = weight.shape[0] // ranks
    piece = torch.empty(rows, weight.shape[1], dtype=weight.dtype)
    piece.copy_(weight[rank * rows : (rank + 1) * rows])
    return piece


def row_shard(weight, rank, ranks):
    columns = weight.shape[1] // ranks
    return weight[:, rank * columns : (rank + 1) * columns].clone()


# %% right: any variant  from: chunk and clone
# - def column_shard(weight, rank, ranks):
# + from course_lib import params
# + VARIANT = params("column-and-row")
# + OUTPUTS = 0 if VARIANT.layout == "torch" else 1
# + def column_shard(weight, rank, ranks):
# ~ 0 ==> OUTPUTS
# -     return weight.chunk(ranks, dim=1)[rank].clone()
# +     return weight.chunk(ranks, dim=1 - OUTPUTS)[rank].clone()

# %% wrong: dimensions exchanged, as in a textbook's layout => values other-cut unless layout=textbook  from: chunk and clone
# ~ chunk(ranks, dim=0) ==> chunk(ranks, dim=1)
# ~ return weight.chunk(ranks, dim=1)[rank] ==> return weight.chunk(ranks, dim=0)[rank]

# %% wrong: the whole weight on every rank => values whole  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> weight
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> weight

# %% wrong: everything else made zero => values another-kind  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> weight * (torch.arange(len(weight)) * ranks // len(weight) == rank)[:, None]
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> weight * (torch.arange(len(weight.T)) * ranks // len(weight.T) == rank)

# %% wrong: every fourth row => values dealt  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank] ==> weight[rank::ranks]
# ~ weight.chunk(ranks, dim=1)[rank] ==> weight[:, rank::ranks]

# %% wrong: transposed on the way => values transposed  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].T.contiguous()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].T.contiguous()

# %% wrong: always the first rank's => values another-rank's  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank] ==> weight[: len(weight) // ranks]
# ~ weight.chunk(ranks, dim=1)[rank] ==> weight[:, : weight.shape[1] // ranks]

# %% wrong: numbers rounded to float32 => generality another-kind  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].float().clone()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].float().clone()

# %% wrong: nothing returned => values returned-none  from: chunk and clone
# ~ return weight.chunk(ranks, dim=0)[rank].clone() ==> weight.chunk(ranks, dim=0)[rank].clone()
# ~ return weight.chunk(ranks, dim=1)[rank].clone() ==> weight.chunk(ranks, dim=1)[rank].clone()

# %% half: views of the whole => 4.25  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank]
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank]

# %% half: rows right, columns not => 1.75  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone ==> clone

# %% half: contiguous is no copy where it is contiguous already => 4.25  from: chunk and clone
# ~ chunk(ranks, dim=0)[rank].clone() ==> chunk(ranks, dim=0)[rank].contiguous()
# ~ chunk(ranks, dim=1)[rank].clone() ==> chunk(ranks, dim=1)[rank].contiguous()

# %% half: a deep copy of a view copies what lies behind it => 4.25  from: chunk and clone
# ~ weight.chunk(ranks, dim=0)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=0)[rank])
# ~ weight.chunk(ranks, dim=1)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=1)[rank])
"""
