import torch

from course_chapters.ch09.exercises.judges import regions
from course_grader.judging import Case, Judging, Params, Random, Worked, hidden, shown
from course_grader.judging.ranks import PerRank
from course_grader.judging.tensors import coin_of, normal

CUT = {"down": 1, "down_bias": None}  # the others by rows
right = Worked("parallel-mlp")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, kind, tokens = coin_of(rng), params["kind"], params["tokens"]

    def data(n: int, rows: tuple[int, int], hidden: int, ffn: int, dtype: torch.dtype = torch.float32) -> PerRank:
        shapes: dict[str, tuple[int, ...]] = {"up": (ffn, hidden), "down": (hidden, ffn)}
        shapes |= {"gate": (ffn, hidden)} if kind == "gated" else {"up_bias": (ffn,), "down_bias": (hidden,)}
        whole = {name: normal(coin, *shape, dtype=dtype) for name, shape in shapes.items()}
        x, gradient = normal(coin, *rows, hidden, dtype=dtype), normal(coin, *rows, hidden, dtype=dtype)
        pieces = [{name: regions.part(w, n, rank, CUT.get(name, 0)) for name, w in whole.items()} for rank in range(n)]
        return tuple((x.clone(), gradient.clone(), piece) for piece in pieces)

    rows, share = (2, tokens // 2), "generality:shapes"
    return [
        shown("three ranks", "values:output", per_rank=data(3, rows, 8, 4 * tokens)),
        hidden("two ranks, other data", "values:output", per_rank=data(2, rows, 8, 4 * tokens)),
        hidden("one rank", share, per_rank=data(1, (1, 5), 6, 8)),
        hidden("three ranks, ffn smaller than hidden", share, per_rank=data(3, (2, 4), 9, 6)),
        hidden("nine ranks, a column each, 64 bits", share, per_rank=data(9, (1, 1), 4, 9, torch.float64)),
    ]


JUDGING = Judging(
    point=("cost:bytes",),
    shares="values:output 0.25, values:gradients 0.3, cost:bytes 0.3, generality:shapes 0.15",
    cases=_cases,
    verdicts=regions.layer(
        right, regions.one_sum_each(2), hint="Which outputs of the first product does this rank's piece of `down` take?"
    ),
    why="A column cut gives each rank whole outputs, so that whatever acts on single numbers can follow at once; a "
    "row cut takes just these as its inputs. Only the sum behind it needs the other ranks, and so does, on the "
    "way back, the gradient of what all used. Two messages, however wide the middle is.",
    pytorch='`parallelize_module(mlp, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})`.',
)

ANSWERS = r'''# %% right: worked
kind = params("parallel-mlp").kind  # leave as is: "gelu" or "gated": what your variant asks for


def parallel_mlp(comm, x, weights):
    """The MLP's output (batch, seq, hidden), on every rank. Budget: one all-reduce per pass."""
    x = copy_in(x, comm)
    if kind == "gated":
        inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
        return sum_out(F.linear(inner, weights["down"]), comm)
    inner = F.gelu(F.linear(x, weights["up"], weights["up_bias"]))
    return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# %% right: each row of the batch with operators of its own
# ~ parallel_mlp ==> of_one_row
# -     return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# +     return sum_out(F.linear(inner, weights["down"]), comm)
# + def parallel_mlp(comm, x, weights):
# +     return torch.stack([of_one_row(comm, row, weights) for row in x.unbind(0)]) + weights.get("down_bias", 0)
# %% wrong: the gather in the middle, as printed => cost gathered-in-the-middle
# > The ranks communicate between the two products. Each piece of `down` needs only what its rank has.
#           inner = F.silu(F.linear(x, weights["gate"])) * F.linear(x, weights["up"])
# +         inner = split(gather(inner, comm, dim=2), comm, dim=2)
#       inner = F.gelu(F.linear(x, weights["up"], weights["up_bias"]))
# +     inner = split(gather(inner, comm, dim=2), comm, dim=2)
# %% wrong: whole weights on every rank => cost weights-travelled
# > Every rank got whole weights. No rank needs more than its pieces.
# -     x = copy_in(x, comm)
# +     def sum_out(whole, comm):
# +         return whole
# +     dims = {"up": 0, "up_bias": 0, "gate": 0, "down": 1}
# +     weights = {name: gather(w, comm, dims[name]) if name in dims else w for name, w in weights.items()}
# %% wrong: the first bias forgotten => values no-first-bias unless kind=gated
# > `up_bias` is missing, which each rank adds to its own columns before GeLU.
# ~ F.linear(x, weights["up"], weights["up_bias"]) ==> F.linear(x, weights["up"])
# %% wrong: GeLU approximated => values tanh unless kind=gated
# > this is GeLU's approximation by tanh; the exact one, `F.gelu(x)`, is asked for.
# ~ weights["up_bias"])) ==> weights["up_bias"]), approximate="tanh")
# %% wrong: the bias before the sum => values bias-n-times unless kind=gated
# > `down_bias` is in it once from every rank; it counts once.
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"]), comm)
# %% wrong: the last bias forgotten => values no-bias unless kind=gated
# > `down_bias` is missing.
# ~ + weights["down_bias"] ==>
# %% wrong: the bias divided by N before the sum => values divided unless kind=gated
# > it is divided by the number of ranks, so that every copy makes too small a step.
# ~ ), comm) + weights["down_bias"] ==> , weights["down_bias"] / comm.size), comm)
# %% wrong: the last bias through the operator in front => values times-n unless kind=gated
# > it is as many times too large as there are ranks: after the sum all hold the same, so this gradient is not summed
# > again.
# ~ + weights["down_bias"] ==> + copy_in(weights["down_bias"], comm)
# %% wrong: no operator in front => values not-summed
# > this is what this rank sends back, alone: all ranks used x, so all count. What precedes the region?
# -     x = copy_in(x, comm)
# %% wrong: no operator behind => values own-part
# > this is what this rank's piece of `down` yields; all ranks' parts add up.
# ~ x = copy_in(x, comm) ==> x, sum_out = copy_in(x, comm), lambda part, comm: part
# %% wrong: an all-reduce that autograd does not know => values no-gradient
# -     x = copy_in(x, comm)
# +     def sum_out(part, comm):
# +         total = part.detach().clone()
# +         comm.all_reduce(total)
# +         return total
# %% wrong: an average behind, as for gradients => values mean
# > this is a mean of the ranks' parts; they add up.
# -         return sum_out(F.linear(inner, weights["down"]), comm)
# +         return sum_out(F.linear(inner, weights["down"]), comm) / comm.size
# ~ + weights ==> / comm.size + weights
# %% wrong: the sum moved in front of the nonlinearity => values sum-in-the-middle
# > the ranks' numbers are summed before the nonlinearity, but there each rank has whole ones; only `down`'s outputs are
# > parts.
# ~ F.silu(F.linear(x, weights["gate"])) ==> F.silu(sum_out(F.linear(x, weights["gate"]), comm))
# -         return sum_out(F.linear(inner, weights["down"]), comm)
# +         return F.linear(inner, weights["down"])
# ~ F.gelu(F.linear(x, weights["up"], weights["up_bias"]))
# ~~ ==> F.gelu(sum_out(F.linear(x, weights["up"], weights["up_bias"]), comm))
# ~ return sum_out(F.linear(inner, weights["down"]), comm) + ==> return F.linear(inner, weights["down"]) +
# %% wrong: an average of the result, to be safe => cost one-too-many
# > That is more than one all-reduce each way: one operator in front and one behind are enough.
# ~ parallel_mlp ==> in_parallel
#       return sum_out(F.linear(inner, weights["down"]), comm) + weights["down_bias"]
# + def parallel_mlp(comm, x, weights):
# +     y = in_parallel(comm, x, weights)
# +     same = y.detach().clone()
# +     comm.all_reduce(same, op="AVG")
# +     return y + (same - y.detach())
# %% wrong: the form of another variant => raised
# ~ if kind == "gated": ==> if kind != "gated":
# %% wrong: every part to everyone => cost gathered
# > Every rank sends its whole part to every other rank; an all-reduce sends less than twice the tensor.
# ~ x = copy_in(x, comm) ==> x, sum_out = copy_in(x, comm), lambda part, comm: gather(part[None], comm, 0).sum(0)
# %% half: everything but the gather => 5  from: the gather in the middle, as printed
# %% half: the output is right => 2.5  from: no operator in front
'''
