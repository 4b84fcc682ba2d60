"""Judge of parallel-mlp: an MLP with one all-reduce per pass."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.ch09.judges import regions
from course_lib.exercises.ch09.judges.regions import Result, Weights
from course_lib.judging import Fault, Judging, Mistake, Params
from course_lib.judging.cases import hidden, shown
from course_lib.judging.tensors import coin_of, nbytes, normal, tensor_fault
from course_lib.records import Case, Outcome, Verdict


def _mlp(kind: str) -> Callable[[Weights], Tensor]:
    def call(w: Weights) -> Tensor:
        if kind == "gated":
            return F.linear(F.silu(F.linear(w["x"], w["gate"])) * F.linear(w["x"], w["up"]), w["down"])
        return F.linear(F.gelu(F.linear(w["x"], w["up"], w["up_bias"])), w["down"], w["down_bias"])

    return call


def _piece(whole: Weights, n: int, rank: int) -> dict[str, Tensor]:
    """This rank's pieces; x and `down_bias` are whole on every rank."""
    dims = {"x": None, "down_bias": None, "down": 1}
    return {
        name: w.clone() if (dim := dims.get(name, 0)) is None else regions.part(w, n, rank, dim)
        for name, w in whole.items()
    }


def _cases(params: Params, rng: random.Random) -> list[Case]:
    coin, kind, tokens = coin_of(rng), params["kind"], params["tokens"]

    def data(n: int, rows: tuple[int, int], hidden: int, ffn: int, dtype: torch.dtype = torch.float32) -> Any:
        shapes = {"up": (ffn, hidden), "down": (hidden, ffn)}
        shapes |= {"gate": (ffn, hidden)} if kind == "gated" else {"up_bias": (ffn,), "down_bias": (hidden,)}
        whole = {name: normal(coin, *shape, dtype=dtype) for name, shape in shapes.items()}
        x, gradient = normal(coin, *rows, hidden, dtype=dtype), normal(coin, *rows, hidden, dtype=dtype)
        per_rank = tuple((x.clone(), gradient.clone(), _piece(whole, n, rank)) for rank in range(n))
        return {"per_rank": per_rank, "secret": ({"x": x, **whole}, gradient)}

    rows = (2, tokens // 2)
    return [
        shown("three ranks", "values:output", **data(3, rows, 8, 4 * tokens)),
        hidden("two ranks, other data", "values:output", **data(2, rows, 8, 4 * tokens)),
        hidden("one rank", "generality:shapes", **data(1, (1, 5), 6, 8)),
        hidden("three ranks, ffn smaller than hidden", "generality:shapes", **data(3, (2, 4), 9, 6)),
        hidden("nine ranks, a column each, 64 bits", "generality:shapes", **data(9, (1, 1), 4, 9, torch.float64)),
    ]


def _extra_bytes(inputs: Weights, n: int) -> list[Mistake]:
    """Known ways to send more than one all-reduce each way, by the bytes that a rank sends too many."""
    x, one = inputs["x"], regions.ring_bytes(inputs["x"], n)[1]
    two = regions.ring_most(2 * x.numel(), x.element_size(), n) - one
    inner = (n - 1) * nbytes(x) // x.shape[-1] * inputs["up"].shape[0] / n
    weights = (n - 1) / n * sum(nbytes(w) for name, w in inputs.items() if name not in ("x", "down_bias"))
    between = "The ranks communicate between the two products. Each piece of `down` needs only what its rank has."
    travelled = "Every rank got whole weights. No rank needs more than its pieces."
    gathered = "Every rank sends its whole part to every other rank; an all-reduce sends less than twice the tensor."
    too_many = "That is more than one all-reduce each way: one operator in front and one behind are enough."
    return [
        *(Mistake("gathered-in-the-middle", extra, between) for extra in (inner, 2 * inner, inner + weights)),
        Mistake("weights-travelled", weights - 2 * one, travelled),
        Mistake("gathered", (n - 1) * nbytes(x) - one, gathered),
        *(Mistake("one-too-many", extra, too_many) for extra in (one, 2 * one, two)),
    ]


def _verdicts(params: Params, case: Case, outcome: Outcome) -> list[Verdict]:
    n, run, (inputs, gradient) = case.ranks or 1, _mlp(params["kind"]), case.secret
    y, grads = regions.whole_gradients(run, inputs, gradient)
    pieces = [_piece(inputs, n, rank) for rank in range(n)]
    zero = torch.zeros_like(inputs["x"][0, 0])
    bias = inputs.get("down_bias", zero)
    partial = [run({**piece, "down_bias": zero}) for piece in pieces]

    def output(rank: int, got: Result) -> Fault | None:
        own, mean = partial[rank] + bias, sum(partial) / n + bias
        mistakes = (
            Mistake("own-part", own, "this is what this rank's piece of `down` yields; all ranks' parts add up."),
            Mistake("mean", mean, "this is a mean of the ranks' parts; they add up."),
            Mistake("bias-n-times", y + (n - 1) * bias, f"`down_bias` is in it {n} times, once from every rank."),
            Mistake("no-bias", y - bias, "`down_bias` is missing."),
        )
        hint = "Which outputs of the first product does this rank's piece of `down` take?"
        return tensor_fault(f"Rank {rank}: y", got["y"], y, mistakes, otherwise=hint)

    def gradients(rank: int, got: Result) -> Fault | None:
        want = _piece(grads, n, rank)
        mistakes: dict[str, tuple[Mistake, ...]] = {name: regions.off_by_ranks(n, each) for name, each in want.items()}
        own = regions.whole_gradients(run, pieces[rank], gradient)[1]["x"]
        alone = "this is what this rank sends back, alone: all ranks used x, so all count. What precedes the region?"
        mistakes["x"] = (Mistake("not-summed", own, alone), *mistakes["x"])
        return regions.gradient_faults(got, rank, want, mistakes)

    least, most = regions.ring_bytes(inputs["x"], n)
    allowed = "One all-reduce of a tensor like x each way."
    spent = regions.traffic(outcome.meter, 2 * least, 2 * most, _extra_bytes(inputs, n), allowed)
    return regions.layer_verdicts(case, outcome.value, ("output", output), {"gradients": gradients}, spent)


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:output 0.25, values:gradients 0.3, cost:bytes 0.3, generality:shapes 0.15",
    cases=_cases,
    verdicts=_verdicts,
    why="A column cut gives each rank whole outputs, so that whatever acts on single numbers can follow at once; a row cut takes just "
    "these as its inputs. Only the sum behind it needs the other ranks, and so does, on the way back, the gradient of what all "
    "used. Two messages, however wide the middle is.",
    pytorch='`parallelize_module(mlp, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})`.',
)

ANSWERS = r"""import torch
from torch.nn import functional as F

from course_lib.tensor_parallel import copy_in, gather, split, sum_out


# %% right: column, row
def parallel_mlp(comm, x, weights):
    inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
    return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]


# %% right: each row of the batch with operators of its own
def parallel_mlp(comm, x, weights):
    outs = []
    for row in x.unbind(0):
        inner = F.gelu(F.linear(copy_in(row, comm), weights["up"], weights["up_bias"]))
        outs.append(sum_out(F.linear(inner, weights["down"]), comm))
    return torch.stack(outs) + weights["down_bias"]


# %% right: any variant  from: column, row
# - def parallel_mlp(comm, x, weights):
# + from course_lib import params
# + VARIANT = params("parallel-mlp")
# + def parallel_mlp(comm, x, weights):
# +     if VARIANT.kind == "gated":
# +         x = copy_in(x, comm)
# +         inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
# +         return sum_out(F.linear(inner, weights["down"]), comm)

# %% wrong: the gather in the middle, as printed => cost gathered-in-the-middle  from: column, row
#       inner = F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]))
# +     inner = split(gather(inner, comm, dim=2), comm, dim=2)


# %% wrong: whole weights on every rank => cost weights-travelled
def parallel_mlp(comm, x, weights):
    up, bias, down = (gather(weights[name], comm, dim) for name, dim in (("up", 0), ("up_bias", 0), ("down", 1)))
    return F.linear(F.gelu(F.linear(x, up, bias)), down, weights["down_bias"])


# %% wrong: the bias before the sum => values bias-n-times  from: column, row
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"]), comm)

# %% wrong: the bias divided by N before the sum => values divided  from: column, row
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"] / comm.size), comm)

# %% wrong: no operator in front => values not-summed  from: column, row
# ~ copy_in(x, comm) ==> x

# %% wrong: no operator behind => values own-part  from: column, row
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> F.linear(inner, weights["down"])

# %% wrong: an all-reduce that autograd does not know => values no-gradient  from: column, row
# -     return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     y = F.linear(inner, weights["down"]).detach()
# +     comm.all_reduce(y)
# +     return y + weights["down_bias"]

# %% wrong: an average behind, as for gradients => values mean  from: column, row
# ~ + ==> / comm.size +

# %% wrong: the sum moved in front of the nonlinearity => values -  from: column, row
# ~ F.gelu(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"])) ==> F.gelu(sum_out(F.linear(copy_in(x, comm), weights["up"], weights["up_bias"]), comm))
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> F.linear(inner, weights["down"])

# %% wrong: an average of the result, to be safe => cost one-too-many  from: column, row
# -     return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     y = sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     same = y.detach().clone()
# +     comm.all_reduce(same, op="AVG")
# +     return y + (same - y.detach())


# %% wrong: the answer to the gated form => raised unless kind=gated
def parallel_mlp(comm, x, weights):
    x = copy_in(x, comm)
    inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
    return sum_out(F.linear(inner, weights["down"]), comm)


# %% wrong: the last bias through the operator in front => values times-n  from: column, row
# ~ weights["down_bias"] ==> copy_in(weights["down_bias"], comm)

# %% wrong: every part to everyone => cost gathered  from: column, row
# ~ sum_out(F.linear(inner, weights["down"]), comm) ==> gather(F.linear(inner, weights["down"])[None], comm, 0).sum(0)

# %% half: everything but the gather => 5  from: the gather in the middle, as printed

# %% half: the output is right => 2.5  from: no operator in front
"""
