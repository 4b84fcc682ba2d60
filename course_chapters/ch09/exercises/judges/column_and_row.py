import torch
from torch import Tensor

from course_chapters.ch09.exercises.probes import WEIGHED
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Verdict, Weighed, Worked, Wrong, judged
from course_grader.judging.cases import Maker, hidden, shown
from course_grader.judging.tensors import coin_of, same, same_data, tensor_fault

SHARDS = ("column", "row")
right = Worked("column-and-row")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, width = coin_of(rng), params["width"]

    def cut(
        share: str,
        which: int,
        rank: int,
        ranks: int,
        out: int,
        into: int,
        dtype: torch.dtype = torch.float32,
        make: Maker = hidden,
    ) -> Case:
        """A case on a secret weight of so many outputs and inputs."""
        shape = (out, into) if params["layout"] == "torch" else (into, out)
        name = f"{SHARDS[which]}, rank {rank} of {ranks}, {into} inputs, {out} outputs"
        wide = torch.randn(shape, generator=coin, dtype=torch.float64)
        return make(name, share, which, wide.to(dtype), rank, ranks)

    wide = 4, width, width // 3
    others = [(1, 2, width, width // 3, torch.float32), (0, 1, 4, 6, torch.float32), (2, 3, 9, 9, torch.float32)]
    others += [(4, 5, 10, 20, torch.bfloat16), (10, 12, 24, 12, torch.float64)]
    cases = [cut(f"values:{part}", which, 1, *wide, make=shown) for which, part in enumerate(SHARDS)]
    cases += [cut(f"values:{part}", which, rank, *wide) for which, part in enumerate(SHARDS) for rank in (0, 3)]
    return cases + [cut("generality:shapes", which, *sizes) for which in (0, 1) for sizes in others]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    _, weight, _, ranks = case.args
    got, nbytes = outcome.value
    others = [("cost", "memory", _view_fault(nbytes, got, weight))] if ranks > 1 and case.kind == "values" else []
    return judged(case, _fault(case, got), *others)


def _fault(case: Case, got: Tensor) -> Fault | None:
    want, where = right.value(case)[0], f"{case.name}: the piece"
    if same(got, want):
        return None
    fault = tensor_fault(where, got, want) or ("other-numbers", f"{where} does not have the weight's numbers.")
    return Wrong(*fault[:2], f"{case.name}: ", (0,))


def _view_fault(nbytes: float | None, piece: Tensor, weight: Tensor) -> Fault | None:
    own = piece.numel() * piece.element_size()
    if nbytes is not None and nbytes <= own:
        return None
    kept = f"keeps {nbytes or 0:,.0f} alive: it is a view, and the whole weight stays in memory as long as the piece."
    return "a-view", f"The piece has {own:,} bytes and {kept}"


def _weighed(params: Params, rng: Random) -> Weighed:
    """96 weights of 2 MB, one at a time, 64 pieces each: copies hold 1.5 weights and what a cut makes of one; views
    keep 48 alive."""
    ranks, rank, large_sizes = 64, rng.randrange(64), (704, 768)

    def case(name: str, sizes: tuple[int, int]) -> Case:
        places = tuple([rng.randrange(size // ranks) for _ in range(32)] for size in sizes)
        args = (WEIGHED, (rng.randrange(2**31), sizes, 96), rank, ranks, places)
        return hidden(name, "cost:memory", *args, seconds=30.0)

    large = case("96 weights of 2 MB, cut for 64 ranks", large_sizes)
    most = 30 * 4 * large_sizes[0] * large_sizes[1]
    warm = case("96 small weights", (64, 128))
    return Weighed(case=large, warm=warm, most=most, done=lambda outcome: same_data(outcome.value, right.value(large)))


JUDGING = Judging(
    shares="values:column 0.35, values:row 0.35, cost:memory 0.15, generality:shapes 0.15",
    measured_by_worker=("cost:memory",),
    weighed=_weighed,
    cases=_cases,
    verdicts=_verdicts,
    why="A column cut splits the outputs, so each rank needs all inputs; a row cut splits the inputs, so each rank "
    "has a part of every output. `nn.Linear` keeps (out, in), which is why a column cut is `dim=0` there.",
    pytorch="`ColwiseParallel` of an `nn.Linear` is `Shard(0)` of its weight, `RowwiseParallel` is `Shard(1)`.",
)

ANSWERS = r'''import copy
# %% right: worked
layout = params("column-and-row").layout  # leave as is: "torch": (out, in); "textbook": (in, out)


def column_shard(weight, rank, ranks):
    """The piece of `weight` that computes this rank's outputs, in its own memory."""
    outputs = 0 if layout == "torch" else 1
    return weight.chunk(ranks, dim=outputs)[rank].clone()


def row_shard(weight, rank, ranks):
    """The piece of `weight` that multiplies this rank's inputs, in its own memory."""
    inputs = 1 if layout == "torch" else 0
    return weight.chunk(ranks, dim=inputs)[rank].clone()
# %% right: ranges counted out
# ~ weight.chunk(ranks, dim=outputs)[rank]
# ~~ ==> weight.narrow(outputs, rank * (weight.shape[outputs] // ranks), weight.shape[outputs] // ranks)
# -     return weight.chunk(ranks, dim=inputs)[rank].clone()
# +     size = weight.shape[inputs] // ranks
# +     piece = torch.empty(*(size if dim == inputs else n for dim, n in enumerate(weight.shape)), dtype=weight.dtype)
# +     return piece.copy_(weight.narrow(inputs, rank * size, size))
# %% wrong: dimensions exchanged => values other-cut
# > this is cut along the other dimension. Which one counts outputs in a weight held {{held}}?
# ~ dim=outputs ==> dim=1 - outputs
# ~ dim=inputs ==> dim=1 - inputs
# %% wrong: the whole weight on every rank => values whole
# > this is the whole weight: every rank keeps everything, and nothing is saved.
# ~ weight.chunk(ranks, dim=outputs)[rank].clone() ==> weight
# ~ weight.chunk(ranks, dim=inputs)[rank].clone() ==> weight
# %% wrong: everything else made zero => values another-kind
# ~ weight.chunk(ranks, dim=outputs)[rank].clone()
# ~~ ==> torch.cat([piece * (at == rank) for at, piece in enumerate(weight.chunk(ranks, outputs))], outputs)
# ~ weight.chunk(ranks, dim=inputs)[rank].clone()
# ~~ ==> torch.cat([piece * (at == rank) for at, piece in enumerate(weight.chunk(ranks, inputs))], inputs)
# %% wrong: every fourth row => values dealt
# > the rows or columns are dealt out in turn; the cut is in order, one range for each rank.
# ~ chunk(ranks, dim=outputs)[rank] ==> index_select(outputs, torch.arange(rank, weight.shape[outputs], ranks))
# ~ chunk(ranks, dim=inputs)[rank] ==> index_select(inputs, torch.arange(rank, weight.shape[inputs], ranks))
# %% wrong: transposed => values
# > this is transposed; keep the layout of the weight.
# ~ chunk(ranks, dim=outputs)[rank].clone() ==> chunk(ranks, dim=outputs)[rank].T.clone()
# ~ chunk(ranks, dim=inputs)[rank].clone() ==> chunk(ranks, dim=inputs)[rank].T.clone()
# %% wrong: always the first rank's => values another-rank's
# > this is another rank's piece.
# ~ dim=outputs)[rank] ==> dim=outputs)[0]
# ~ dim=inputs)[rank] ==> dim=inputs)[0]
# %% wrong: ranks counted from one => values another-rank's
# ~ dim=outputs)[rank] ==> dim=outputs)[rank - 1]
# ~ dim=inputs)[rank] ==> dim=inputs)[rank - 1]
# %% wrong: numbers rounded to float32 => generality another-kind
# ~ dim=outputs)[rank].clone() ==> dim=outputs)[rank].float().clone()
# ~ dim=inputs)[rank].clone() ==> dim=inputs)[rank].float().clone()
# %% wrong: nothing returned => values returned-none
# ~ return weight.chunk(ranks, dim=outputs) ==> weight.chunk(ranks, dim=outputs)
# ~ return weight.chunk(ranks, dim=inputs) ==> weight.chunk(ranks, dim=inputs)
# %% half: views of the whole => 4.25
# ~ dim=outputs)[rank].clone() ==> dim=outputs)[rank]
# ~ dim=inputs)[rank].clone() ==> dim=inputs)[rank]
# %% half: rows right, columns not => 1.75
# ~ chunk(ranks, dim=outputs)[rank].clone ==> clone
# %% half: contiguous is no copy where it is contiguous already => 4.25
# ~ dim=outputs)[rank].clone() ==> dim=outputs)[rank].contiguous()
# ~ dim=inputs)[rank].clone() ==> dim=inputs)[rank].contiguous()
# %% half: a deep copy of a view copies what lies behind it => 4.25
# ~ weight.chunk(ranks, dim=outputs)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=outputs)[rank])
# ~ weight.chunk(ranks, dim=inputs)[rank].clone() ==> copy.deepcopy(weight.chunk(ranks, dim=inputs)[rank])
'''
