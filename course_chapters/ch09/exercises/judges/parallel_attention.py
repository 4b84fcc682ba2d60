import torch

from course_chapters.ch09.exercises.judges import regions
from course_grader.judging import Case, Fault, Judging, Outcome, Params, Random, Worked, hidden, shown
from course_grader.judging.cases import Maker
from course_grader.judging.tensors import coin_of, normal

right = Worked("parallel-attention")


def _cases(params: Params, rng: Random) -> list[Case]:
    coin, seq, own = coin_of(rng), params["tokens"], params["head_dim"]

    def case(
        share: str,
        n: int,
        heads: int,
        kv: int,
        width: int,
        dtype: torch.dtype = torch.float32,
        batch: int = 2,
        head_dim: int = own,
        make: Maker = hidden,
    ) -> Case:
        rows, owners, copies = {"wq": heads, "wk": kv, "wv": kv}, min(n, kv), max(1, n // kv)
        whole = {name: normal(coin, count * head_dim, width, dtype=dtype) for name, count in rows.items()}
        whole["wo"] = normal(coin, width, heads * head_dim, dtype=dtype)
        whole["wk"] /= width**0.5  # so that softmax does not pick a single token
        whole["wq"] /= width**0.5
        x, gradient = (normal(coin, batch, seq, width, dtype=dtype) for _ in range(2))
        groups = tuple(tuple(range(first, first + copies)) for first in range(0, n, copies))

        def piece(rank: int) -> dict[str, object]:
            """Rows of q, k and v and columns of the output; ranks beyond the KV heads have copies of them."""
            shared = {name: regions.part(whole[name], owners, rank * owners // n) for name in ("wk", "wv")}
            return {"wq": regions.part(whole["wq"], n, rank), **shared, "wo": regions.part(whole["wo"], n, rank, 1)}

        name = f"{n} rank{'s' * (n > 1)}, {heads} query heads, {kv} KV heads"
        per_rank = tuple((x.clone(), gradient.clone(), head_dim, groups, piece(rank)) for rank in range(n))
        return make(name, share, per_rank=per_rank)

    return [
        case("values:output", 4, 8, 4, 12, make=shown),
        case("values:output", 4, 8, 2, 12),
        case("values:output", 2, 8, 4, 10),
        case("generality:heads", 1, 4, 2, 8),
        case("generality:heads", 3, 3, 3, 9),
        case("generality:heads", 4, 8, 1, 8, torch.float64),
        case("generality:heads", 9, 18, 3, 8, batch=1, head_dim=6),
    ]


def _bytes(case: Case, outcome: Outcome) -> Fault | None:
    x, _, _, groups, weights = (case.per_rank or ())[0]
    n, copies, here, item = len(case.per_rank or ()), len(groups[0]), weights["wk"].numel(), x.element_size()
    least, one = regions.ring_bytes(x, n)
    shared = len(groups) * 4 * (copies - 1) * here * item
    allowed = "One all-reduce of a tensor like x each way, and copied KV weights' gradients."
    most = 2 * one + 2 * regions.ring_most(here, item, copies)
    return regions.traffic(outcome.meter, 2 * least + shared, most, allowed)


JUDGING = Judging(
    shares="values:output 0.2, values:gradients 0.2, values:copies 0.15, cost:bytes 0.25, generality:heads 0.2",
    cases=_cases,
    verdicts=regions.layer(
        right,
        _bytes,
        hint="Which KV head does each query head look at, and which numbers of a row belong to one head?",
        gradients=("x", "wq", "wo"),
        copies=("wk", "wv"),
    ),
    why="Heads never look at each other, so they are to attention what columns are to the MLP: q, k and v are cut by "
    "columns, the output by rows. A KV head on several ranks is a tensor that enters several computations: its "
    "gradient is the sum over its copies.",
    pytorch="Megatron copies KV heads when `tensor-model-parallel-size` exceeds `num-query-groups`; torch's DTensor "
    "plan cuts q, k, v column-wise and the output row-wise.",
)

ANSWERS = r'''# %% right: worked
def parallel_attention(comm, copies, x, weights, head_dim):
    """Causal attention's output (batch, seq, hidden), on every rank. Budget: one all-reduce per pass."""
    x = copy_in(x, comm)
    wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
    q, k, v = (F.linear(x, w).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in (weights["wq"], wk, wv))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    return sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm)
# %% right: copies' gradients summed where they are accumulated
# -     wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
# +     wk, wv = weights["wk"], weights["wv"]
# +     for weight in (wk, wv):
# +         weight.register_post_accumulate_grad_hook(lambda p: copies.all_reduce(p.grad))
# %% wrong: copies of KV heads left to themselves => values copies-apart
# > this comes from this rank's query heads alone. Other ranks copy the same KV head and then differ.
# ~ copy_in(weights["wk"], copies), copy_in(weights["wv"], copies) ==> weights["wk"], weights["wv"]
# %% wrong: copies averaged => values mean-of-copies
# > this is a mean over the copies; what they send back adds up.
#       wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
# +     for copied in (wk, wv):
# +         copied.register_hook(lambda grad: grad / copies.size)
# %% wrong: summed over the copies twice => values times-copies
# > it is summed over the copies twice.
#       wk, wv = copy_in(weights["wk"], copies), copy_in(weights["wv"], copies)
# +     wk, wv = copy_in(wk, copies), copy_in(wv, copies)
# %% wrong: KV weights summed over all ranks => values summed-over-all
# > this is summed over all ranks; only those that hold a copy of the same KV head belong together.
# ~ copies), copy_in(weights["wv"], copies ==> comm), copy_in(weights["wv"], comm
# %% wrong: an operator for each product => cost an-operator-each
# > Queries, keys and values enter through an operator each. What enters once needs one, in front of all three.
# -     x = copy_in(x, comm)
# ~ F.linear(x, w) ==> F.linear(copy_in(x, comm), w)
# %% wrong: keys and values repeated in turn, not in groups => values wrong-heads
# > query heads look at other KV heads than their own: head i belongs to KV head i // (q / k).
# -     out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# +     repeat = q.shape[1] // k.shape[1]
# +     k, v = k.repeat(1, repeat, 1, 1), v.repeat(1, repeat, 1, 1)
# +     out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
# %% wrong: splits inside a head => values other-numbers
# ~ unflatten(-1, (-1, head_dim)) ==> unflatten(-1, (head_dim, -1)).transpose(2, 3)
# %% wrong: looks ahead => values no-mask
# > tokens look at later tokens; attention is causal.
# ~ is_causal=True, enable_gqa ==> enable_gqa
# %% wrong: scores not scaled => values another-scale
# > scores are not scaled by head_dim^−½.
# ~ enable_gqa=True ==> enable_gqa=True, scale=1.0
# %% wrong: no operator in front => values not-summed
# > this is what this rank sends back, alone: all ranks used x, so all count.
# -     x = copy_in(x, comm)
# %% wrong: no operator behind => values own-part
# > this is what this rank's heads yield; all ranks' parts add up.
# ~ x = copy_in(x, comm) ==> x, sum_out = copy_in(x, comm), lambda part, comm: part
# %% wrong: an average behind => values mean
# > this is a mean of the ranks' parts; they add up.
# ~ weights["wo"]), comm) ==> weights["wo"]), comm) / comm.size
# %% wrong: an operator behind that sums on the way back, too => values times-n
# > it is as many times too large as there are ranks: after the sum all hold the same, so its gradient is not summed
# > again.
# ~ sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm)
# ~~ ==> copy_in(sum_out(F.linear(out.transpose(1, 2).flatten(2), weights["wo"]), comm), comm)
# %% wrong: heads gathered, and cut again => cost gathered-heads
# > The heads' outputs are gathered: each rank's piece of `wo` takes just what its own heads yield.
#       out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
# +     out = split(gather(out, comm, dim=1), comm, dim=1)
# %% wrong: query weights summed over copies, too => values copied-queries
# > this is summed over the copies; each rank has query heads of its own.
# ~ (weights["wq"], wk, wv) ==> (copy_in(weights["wq"], copies), wk, wv)
# %% wrong: keys of copies averaged, to be safe => cost too-many-bytes
#       q, k, v = (F.linear(x, w).unflatten(-1, (-1, head_dim)).transpose(1, 2) for w in (weights["wq"], wk, wv))
# +     same = k.detach().clone()
# +     copies.all_reduce(same, op="AVG")
# +     k = k + (same - k.detach())
# %% half: all but the copies' gradients => 4.8  from: copies of KV heads left to themselves
# %% wrong: scores scaled as in the example => generality other-numbers
# ~ enable_gqa=True) ==> enable_gqa=True, scale=0.5 if head_dim > 4 else None)
'''
